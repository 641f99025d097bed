"""The engine's server with faults that tests plant into it; it runs under the interpreter that has vllm."""

import time

from turngate.agents.engines import vllm_adapters, vllm_server


def serve(channel_fd: int, weights_fd: int, parent: int) -> None:
    vllm_server.serve_with(PlantedServer(weights_fd), channel_fd, parent)


class PlantedServer(vllm_server.Server):
    """``plant`` sets the fault that every later message meets; "" removes it."""

    fault = ""

    def do_plant(self, message):
        self.fault = message["fault"]
        return {}

    def do_heads(self, message):
        vllm_server._check_heads(message["size"])
        return {}

    def do_unserved(self, message):
        def refuse(worker):
            vllm_adapters.refuse_unserved(worker, message["layers"])

        self._engine.collective_rpc(refuse)
        return {}

    def do_publish(self, message):
        if self.fault == "wrong version":
            return {**super().do_publish(message), "version": "7"}
        if self.fault == "stale cache of one number":
            self._number = 0
        if self.fault != "skipped push":
            return super().do_publish(message)
        rpc, skipped = self._engine.collective_rpc, ("update_weights", vllm_adapters.install)
        self._engine.collective_rpc = lambda method, **more: None if method in skipped else rpc(method, **more)
        try:
            return super().do_publish(message)
        finally:
            del self._engine.collective_rpc

    def do_step(self, message):
        if self.fault == "hangs":
            time.sleep(1000)
        return super().do_step(message)

    def reset_cache(self):
        return True if self.fault.startswith("stale cache") else super().reset_cache()

    def adapters_of_requests(self):
        return None if self.fault == "ignored adapters" else super().adapters_of_requests()
