"""Owns the answers to control requests of the host."""

import os
import threading
import time

DEFAULT_MODEL = "claude-fake-1"
MODES = ("default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto", "manual")
POLL_SECONDS = 0.005

# Controls that the real CLI answers with a payload of no interest here.
PLAIN_CONTROLS = {
    "set_max_thinking_tokens", "rename_session", "mcp_status", "get_context_usage", "get_session_cost", "list_models",
    "get_usage", "get_binary_version", "file_suggestions", "rewind_files", "read_file", "seed_read_state",
    "mcp_set_servers", "reload_plugins", "reload_skills", "reload_output_styles", "mcp_reconnect", "mcp_toggle",
    "set_has_subscribers", "stop_task", "background_tasks", "get_task_output", "apply_flag_settings", "get_settings",
    "get_hooks_listing", "update_settings", "list_permission_rules", "mcp_message", "side_question", "get_status",
}


class Controls:
    """The part of the fake CLI that answers control requests; runs on the reader's thread."""

    def take_control(self, message):
        request_id, request = message.get("request_id"), message.get("request") or {}
        plan = self.settings.get("controls", {}).get(request.get("subtype"), {})
        if plan.get("swallow"):
            return
        if "wait_file" in plan or "delay_ms" in plan:
            threading.Thread(target=self.late_control, args=(request_id, request, plan), daemon=True).start()
        else:
            self.answer_control(request_id, request, plan)

    def late_control(self, request_id, request, plan):
        time.sleep(plan.get("delay_ms", 0) / 1000)
        while plan.get("wait_file") and not os.path.exists(plan["wait_file"]):
            time.sleep(POLL_SECONDS)
        self.answer_control(request_id, request, plan)

    def answer_control(self, request_id, request, plan):
        subtype = request.get("subtype")
        if "error" in plan:
            return self.respond_error(request_id, plan["error"], plan.get("error_code"))
        handler = getattr(self, f"control_{subtype}", None)
        if handler is not None:
            handler(request_id, request, plan)
        elif subtype in PLAIN_CONTROLS or "response" in plan:
            self.respond(request_id, plan.get("response", {}))
        else:
            self.respond_error(request_id, f"Unsupported control request subtype: {subtype}", "unsupported_request")

    def respond(self, request_id, payload):
        self.out.line({"type": "control_response", "response": {"subtype": "success", "request_id": request_id, "response": payload}})

    def respond_error(self, request_id, error, code=None):
        response = {"subtype": "error", "request_id": request_id, "error": error}
        if code:
            response["error_code"] = code
        self.out.line({"type": "control_response", "response": response})

    def control_initialize(self, request_id, _request, _plan):
        if not self.initialized and ("init" in self.settings or "before_init" in self.settings):
            # Own thread: what a late initialize is about is everything else going on meanwhile.
            threading.Thread(target=self.late_initialize, args=(request_id,), daemon=True).start()
        else:
            self.answer_initialize(request_id)

    def late_initialize(self, request_id):
        plan = self.settings.get("init", {})
        self.act_all(self.settings.get("before_init", []))
        time.sleep(plan.get("delay_ms", 0) / 1000)
        while plan.get("wait_file") and not os.path.exists(plan["wait_file"]):
            time.sleep(POLL_SECONDS)
        if plan.get("never"):
            return
        if "error" in plan:
            self.respond_error(request_id, plan["error"])
        else:
            self.answer_initialize(request_id)

    def answer_initialize(self, request_id):
        with self.changed:
            asked = [{"type": "control_request", "request_id": key, "request": value} for key, value in self.pending.items()
                     if value.get("subtype") == "can_use_tool"]
        payload = {
            "commands": [{"name": "clear", "description": "Clear the conversation", "argumentHint": ""}],
            "agents": [], "output_style": "default", "available_output_styles": ["default"],
            "models": [{"value": "default", "resolvedModel": self.model, "displayName": "Fake", "description": "A fake model"}],
            "account": {"tokenSource": "none", "apiProvider": "firstParty"}, "pid": os.getpid(),
            "claude_code_version": os.environ.get("FAKE_CLAUDE_VERSION") or self.settings.get("version") or "9.9.9",
            "current_permission_mode": self.mode, "session_state": self.state,
            "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1", "msg_lifecycle_v1"],
            "pending_permission_requests": asked, "pending_user_dialog_requests": [],
        }
        payload.update(self.settings.get("init", {}).get("payload", {}))
        self.respond(request_id, payload)
        with self.changed:
            self.initialized = True
            self.changed.notify_all()

    def control_interrupt(self, request_id, request, plan):
        drop_queued = bool(request.get("cancel_queued"))
        # The turn may go on at once, but says nothing before all of this is said.
        with self.out.lock:
            with self.changed:
                withdrawn = [key for key, value in self.pending.items() if value.get("subtype") == "can_use_tool"]
                for key in withdrawn:
                    del self.pending[key]
                queued = [message["uuid"] for message in self.prompts if message.get("uuid")]
                if drop_queued:
                    self.prompts.clear()
                if self.turn_open and not plan.get("no_effect"):
                    self.interrupted = True
                self.changed.notify_all()
            for key in withdrawn:
                self.out.line({"type": "control_cancel_request", "request_id": key})
            self.respond(request_id, {"still_queued": [], "cancelled": queued} if drop_queued else {"still_queued": queued})
            for ident in queued if drop_queued else []:
                self.emit({"type": "command_lifecycle", "command_uuid": ident, "state": "cancelled"})

    def control_set_model(self, request_id, request, _plan):
        self.model = request.get("model") or DEFAULT_MODEL
        self.respond(request_id, {"model": self.model})

    def control_set_permission_mode(self, request_id, request, _plan):
        mode = request.get("mode")
        if mode not in MODES:
            return self.respond_error(request_id, f"Invalid permission mode: {mode}", "invalid_mode")
        allowed = self.flag("--permission-mode") == "bypassPermissions" or "--allow-dangerously-skip-permissions" in self.flags
        if mode == "bypassPermissions" and not allowed:
            return self.respond_error(request_id, "Cannot set permission mode to bypassPermissions", "bypass_not_launched")
        self.mode = mode
        self.emit({"type": "system", "subtype": "status", "status": None, "permissionMode": mode})
        self.respond(request_id, {"mode": mode})

    def control_cancel_async_message(self, request_id, request, _plan):
        ident = request.get("message_uuid")
        with self.changed:
            kept = [message for message in self.prompts if message.get("uuid") != ident]
            cancelled = len(kept) < len(self.prompts)
            self.prompts[:] = kept
        if cancelled:
            self.emit({"type": "command_lifecycle", "command_uuid": ident, "state": "cancelled"})
        self.respond(request_id, {"cancelled": cancelled, "message_uuid": ident})

    def control_end_session(self, request_id, _request, _plan):
        self.respond(request_id, {})
        self.save_total()
        os._exit(0)
