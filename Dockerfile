# The daemon in a container; compose.yaml runs it. docs/OPERATING.md says more, under "In a container".
#   docker build -t trunkline .                            the daemon alone: sessions are simulated
#   docker build -t trunkline --target with-claude .       with Claude Code on top
#   docker run --rm --stop-timeout 45 -p 127.0.0.1:7433:7433 -v trunkline:/data -v "$PWD":/work trunkline
#   docker exec CONTAINER cat /data/trunkline/token
#
# The volume /data is the home directory of whoever the container runs as. It has all that must survive: the sessions and the token
# (/data/trunkline), and the CLI's conversations and login (/data/.claude, /data/.claude.json).
# Any user will do (`--user`, or the one that OpenShift makes up) that may write to what is mounted at /work. A volume stays with
# the user who wrote it first: its files can be read by no other.
# The daemon does what process 1 must do; --init does no harm.

ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG NODE_IMAGE=node:22-bookworm-slim
ARG BASE_IMAGE=debian:bookworm-slim

# The console is built where Node is; the program has its files.
FROM ${NODE_IMAGE} AS web
WORKDIR /src
COPY openapi/trunkline.json openapi/
COPY clients/typescript/src clients/typescript/src
COPY web web
RUN cd web && npm ci --no-audit --no-fund --ignore-scripts && npm run build

FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY benches benches
COPY migrations migrations
COPY src src
COPY --from=web /src/web/dist web/dist
RUN cargo build --release --locked --bin trunkline

FROM ${BASE_IMAGE} AS runtime
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/*
# Any user makes directories of its own in these, as in /tmp.
RUN install -d -m 1777 /data /work
COPY --from=build /src/target/release/trunkline /usr/local/bin/trunkline
# A number, so that an engine sees that it is not root.
USER 10001:0
WORKDIR /work
VOLUME ["/data", "/work"]
ENV HOME=/data \
    TRUNKLINE_DATA_DIR=/data/trunkline
EXPOSE 7433
# Started means that the API answers. A container that is unhealthy holds a daemon that hangs.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["trunkline", "status"]
# Inside the container it must listen on all addresses; who may reach it is decided by how the port is published.
ENTRYPOINT ["trunkline"]
CMD ["serve", "--listen", "0.0.0.0:7433", "--insecure"]

FROM ${NODE_IMAGE} AS claude
ARG CLAUDE_CODE_VERSION=2.1.332
RUN npm install --global --prefix /opt/claude @anthropic-ai/claude-code@${CLAUDE_CODE_VERSION}

FROM runtime AS with-claude
COPY --from=claude /opt/claude /opt/claude
# Its user cannot write there, so the image's version is the one that runs.
ENV CLAUDE_BIN=/opt/claude/bin/claude \
    PATH=/opt/claude/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

FROM runtime
