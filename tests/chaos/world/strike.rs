//! Owns what is done to the world in a round.

use std::{
    fs,
    io::Write as _,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use super::World;
use crate::{
    client::Client,
    people,
    plan::{Fault, Prompt},
    processes,
    support::{proc, wait::pass},
};

impl World {
    pub(super) async fn strike(&mut self, fault: &Fault) {
        self.story.tell(format!("{fault:?}"));
        let is_done = match fault {
            Fault::KillDaemon {
                down_ms,
                dies_again_ms,
            } => {
                self.kill_daemon(*down_ms, *dies_again_ms).await;
                true
            }
            Fault::EndDaemon {
                hurry_ms,
                dies_ms,
                down_ms,
                then,
            } => {
                self.end_daemon(*hurry_ms, *dies_ms, *down_ms, *then).await;
                true
            }
            Fault::RestartDaemon { dies_ms, then } => {
                self.restart_daemon(*dies_ms, *then).await;
                true
            }
            Fault::FreezeDaemon { ms } => {
                self.freeze(self.daemon.pid(), *ms);
                true
            }
            Fault::KillKeeper { session, with_tools } => {
                match processes::agent_with_tools().filter(|_| *with_tools) {
                    Some(agent) => {
                        self.kill_agent(agent, true);
                        true
                    }
                    None => self.kill(*session, true),
                }
            }
            Fault::KillCli { session } => self.kill(*session, false),
            Fault::FreezeKeeper { session, ms } => self.freeze_of(*session, *ms, true),
            Fault::FreezeCli {
                session,
                ms,
                unheard: None,
            } => self.freeze_of(*session, *ms, false),
            Fault::FreezeCli {
                session,
                ms,
                unheard: Some(prompt),
            } => self.starve(*session, *ms, prompt),
            Fault::KillSpare { keeper } => self.kill_spare(*keeper),
            Fault::FillDisk { ms } => {
                self.fill_disk(*ms);
                true
            }
            Fault::SetClock { seconds } => {
                self.set_clock(*seconds);
                true
            }
            Fault::Park { session } => self.ask_for(*session, "park"),
            Fault::Stop { session } => {
                if let Some(session) = self.at(*session) {
                    session.stops += 1;
                }
                self.ask_for(*session, "stop")
            }
            Fault::Wake { sessions } => {
                for session in sessions {
                    self.ask_for(*session, "resume");
                    self.ask_for(*session, "resume");
                }
                true
            }
            Fault::Fork { session, guest } => self.fork(*session, guest),
            Fault::Visits(guests) => self.invite(guests),
            Fault::Rush { guests, dies_ms } => {
                let is_done = self.invite(guests);
                if is_done {
                    match dies_ms {
                        Some(ms) => pass(Duration::from_millis(*ms)).await,
                        None => self.hear_answers().await,
                    }
                    self.kill_daemon(0, None).await;
                    self.count("kill daemon");
                }
                is_done
            }
            Fault::Adopt(guests) => self.adopt(guests),
            Fault::Stall { session, ms } => self.stall(*session, *ms),
            Fault::LoseDatabase { down_ms, dies_ms } => {
                self.lose_database(*down_ms, *dies_ms).await;
                true
            }
            Fault::Collect { parked, how, dies_ms } => {
                self.collect(parked, *how, *dies_ms).await;
                true
            }
            Fault::Patch { marks, dies_ms } => {
                self.patch(marks, *dies_ms).await;
                true
            }
        };
        if is_done {
            self.count(fault.name());
        }
    }

    fn kill(&mut self, session: usize, is_keeper: bool) -> bool {
        let agent = self.at(session).and_then(|it| processes::agent_of(&it.id));
        let Some(agent) = agent else { return false };
        self.kill_agent(agent, is_keeper);
        true
    }

    pub(super) fn kill_agent(&mut self, agent: processes::Agent, is_keeper: bool) {
        if is_keeper {
            self.killed.keepers.insert(agent.run);
            proc::signal(agent.keeper, Signal::SIGKILL);
        } else {
            self.killed.agents.insert(agent.run);
            proc::signal(agent.pid, Signal::SIGKILL);
        }
    }

    fn kill_spare(&mut self, is_keeper: bool) -> bool {
        let spares = self.spares();
        let agent = spares.iter().find_map(|id| processes::agent_of(id));
        let Some(agent) = agent else { return false };
        // It may just become somebody's.
        self.kill_agent(agent, is_keeper);
        true
    }

    fn freeze_of(&mut self, session: usize, ms: u64, is_keeper: bool) -> bool {
        let agent = self.at(session).and_then(|it| processes::agent_of(&it.id));
        let Some(agent) = agent else { return false };
        if is_keeper {
            self.killed.frozen.insert(agent.run);
            self.freeze(agent.keeper, ms);
        } else {
            self.freeze(agent.pid, ms);
        }
        true
    }

    /// The agent is frozen, gets a prompt, and dies.
    fn starve(&mut self, session: usize, ms: u64, (uuid, text): &(String, String)) -> bool {
        let found = self
            .at(session)
            .and_then(|it| Some((it.id.clone(), processes::agent_of(&it.id)?)));
        let Some((id, agent)) = found else {
            return false;
        };
        let prompt = Prompt {
            at_ms: 0,
            session,
            uuid: uuid.clone(),
            text: text.clone(),
            resumes: true,
        };
        proc::signal(agent.pid, Signal::SIGSTOP);
        self.killed.agents.insert(agent.run);
        self.senders
            .spawn(people::send(self.address.subscribe(), id, prompt));
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            proc::signal(agent.pid, Signal::SIGKILL);
        });
        true
    }

    fn freeze(&mut self, pid: i32, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        self.frozen_until = self.frozen_until.max(Some(until));
        proc::signal(pid, Signal::SIGSTOP);
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            proc::signal(pid, Signal::SIGCONT);
        });
    }

    fn fill_disk(&mut self, ms: u64) {
        let ballast = self.daemon.data_dir().join("ballast");
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(&ballast)
            .unwrap();
        let block = vec![0; 1 << 20];
        while file.write_all(&block).is_ok() {}
        let until = Instant::now() + Duration::from_millis(ms);
        self.disk_was_full = self.disk_was_full.max(Some(until + Duration::from_secs(1)));
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            // Another one may have been there first.
            fs::remove_file(ballast).ok();
        });
    }

    fn set_clock(&self, seconds: i64) {
        let clock = self.dir.path().join("clock");
        let new = clock.with_extension("new");
        fs::write(&new, format!("{seconds:+}")).unwrap();
        fs::rename(new, clock).unwrap();
    }

    /// Somebody asks for something, and does not mind a refusal.
    fn ask_for(&mut self, session: usize, verb: &'static str) -> bool {
        let Some(session) = self.at(session) else {
            return false;
        };
        let id = session.id.clone();
        let address = self.address.subscribe();
        self.undoing
            .spawn(async move { people::ask_for(&address, &id, verb).await });
        true
    }

    fn stall(&mut self, session: usize, ms: u64) -> bool {
        let Some(session) = self.at(session) else {
            return false;
        };
        let stalled: Vec<_> = session.clients.iter().map(Client::stall).collect();
        for client in &stalled {
            client.send_replace(true);
        }
        self.undoing.spawn(async move {
            pass(Duration::from_millis(ms)).await;
            for client in stalled {
                client.send_replace(false);
            }
        });
        true
    }
}
