"""The process of a vLLM engine: it takes token ids, gives token ids, and takes weights from shared memory.

It runs under the interpreter that has vllm, needs nothing else, and answers one message at a time, so that the calling
process decides which requests are in which step of the engine. The engine core runs in this very process. Weights come
in through vLLM's own interface for weight transfer, of which ``_shared_memory_engine`` makes a back end.

Messages (``do``): ``start``, ``step`` (with new requests and aborted ones), ``publish``, ``sleep``, ``wake``.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import shutil
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngate.agents.engines import link, vllm_adapters
from turngate.agents.engines.stored_tensors import StoredPlace, tensors_in

BACK_END = "turngate"
_READ_ROWS = 256  # rows of a packed matrix that are read back at once
_BLOCK = 32  # tokens of a cache block on a CPU: its attention wants multiples of 32


def serve(channel_fd: int, weights_fd: int, parent: int) -> None:
    """The main function of the process; returns when the other side closes the channel.

    ``weights_fd``: memory with the weights. ``parent``: id of the process that it serves and with which it dies.
    """
    serve_with(Server(weights_fd), channel_fd, parent)


def serve_with(server: Server, channel_fd: int, parent: int) -> None:
    """``serve`` for a server of your own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is for the other process to handle
    folder = os.environ["TMPDIR"]  # its own
    threading.Thread(target=_die_with, args=(parent, folder), daemon=True).start()
    channel = socket.socket(fileno=channel_fd)
    try:
        while (message := link.receive(channel)) is not None:
            link.send(channel, server.answer(message))
    except OSError:  # the other side is gone
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # threads of libraries would keep the process


def _die_with(parent: int, folder: str) -> None:
    """Wait until the process ``parent`` is gone, then kill this one and its children."""
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(parent)], [], [])
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


class Server:
    """The engine and the requests to it. ``answer`` calls the method that a message names."""

    def __init__(self, weights_fd: int) -> None:
        self._weights_fd = weights_fd
        self._engine: Any = None
        self._stops: list[int] = []
        self._manifest: list[StoredPlace] = []
        self._dtype = ""
        self._adapters: dict[str, Any] | None = None
        self._number = 0

    def answer(self, message: link.Message) -> link.Message:
        """The reply; {"error": …} for a request that failed."""
        try:
            reply: link.Message = getattr(self, f"do_{message['do']}")(message)
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}
        return reply

    def do_start(self, message: link.Message) -> link.Message:
        """Load the engine and the weights that are in the shared memory."""
        from vllm import EngineArgs
        from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
        from vllm.platforms import current_platform
        from vllm.v1.engine.llm_engine import LLMEngine
        from vllm.version import __version__

        WeightTransferEngineFactory.register_engine(BACK_END, _shared_memory_engine())
        folder = Path(tempfile.mkdtemp())
        (folder / "config.json").write_text(json.dumps(message["config"]))
        settings = dict(message["settings"])
        if current_platform.is_cpu():
            settings.setdefault("block_size", _BLOCK)
        arguments = EngineArgs(
            model=str(folder), load_format="dummy", weight_transfer_config={"backend": BACK_END}, **settings
        )
        if current_platform.is_cpu():
            _check_heads(arguments.create_model_config().get_head_size())
        self._engine = LLMEngine.from_engine_args(arguments)
        self._stops, self._manifest, self._dtype = message["stops"], message["manifest"], settings["dtype"]
        self._adapters = message["adapters"]
        self._engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {"fd": self._weights_fd}})
        return {
            **self.do_publish({"version": message["version"], "whole": True, "abort": []}),
            "vllm": __version__,
            "device": current_platform.device_type,
        }

    def do_step(self, message: link.Message) -> link.Message:
        """Take new requests, drop aborted ones, and run one step of the engine: the requests that it finished."""
        if message["abort"]:
            self._engine.abort_request(message["abort"])
        refused = {order["id"]: problem for order in message["add"] if (problem := self._add(order))}
        outputs = self._engine.step() if self._engine.has_unfinished_requests() else []
        return {"done": [_completion(output) for output in outputs if output.finished], "refused": refused}

    def do_publish(self, message: link.Message) -> link.Message:
        """Load the weights in the shared memory, empty the prefix cache, and report the weights that are then loaded.

        With ``whole`` all weights are loaded, without it the adapters alone.
        """
        engine, whole = self._engine, message["whole"]
        if message["abort"]:
            engine.abort_request(message["abort"])
        if whole:
            self._load_weights()
        if self._adapters is not None:
            self._number += 1
            places = self._adapters["manifest"]
            engine.collective_rpc(vllm_adapters.install, args=(self._adapters["fd"], places, self._dtype, self._number))
        engine.set_weight_version(str(message["version"]))
        return {
            "reset": self.reset_cache(),
            "version": engine.get_weight_version(),
            "held": self._held_by_all(_fingerprint_held) if whole else None,
            "adapters": None if self._adapters is None else self._held_by_all(vllm_adapters.held_adapters),
        }

    def do_sleep(self, message: link.Message) -> link.Message:
        """Give the GPU's memory back: level 1 keeps the weights in the memory of the machine, level 2 nowhere."""
        self._engine.sleep(message["level"])
        return {}

    def do_wake(self, message: link.Message) -> link.Message:
        """Take the GPU's memory again; after level 2 reload the weights in the shared memory, under the same
        version."""
        self._engine.wake_up()
        if message["level"] < 2:
            return {}
        return self.do_publish({"version": message["version"], "whole": True, "abort": []})

    def reset_cache(self) -> bool:
        """Forget the keys and values of all prefixes; False if the engine could not."""
        return bool(self._engine.reset_prefix_cache())

    def adapters_of_requests(self) -> object:
        """vLLM's name of the adapters that requests are decoded with; None where there are none."""
        from vllm.lora.request import LoRARequest

        number = self._number
        return LoRARequest(f"adapters {number}", number, vllm_adapters.LORA_PATH) if self._adapters else None

    def _load_weights(self) -> None:
        update = {"tensors": self._manifest, "dtype": self._dtype}
        self._engine.collective_rpc("start_weight_update")
        self._engine.collective_rpc("update_weights", kwargs={"update_info": update})
        self._engine.collective_rpc("finish_weight_update")

    def _held_by_all(self, measure: Callable[[Any, str], list[int]]) -> list[int]:
        found: list[int] = self._engine.collective_rpc(measure, args=(self._dtype,))[0]
        return found

    def _add(self, order: dict[str, Any]) -> str:
        """Give a request to the engine; returns why that is impossible, "" if it is not."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        try:
            params = SamplingParams(
                temperature=order["temperature"],
                top_p=order["top_p"],
                top_k=order["top_k"],
                seed=order["seed"],
                max_tokens=order["max_tokens"],
                stop_token_ids=self._stops,
                ignore_eos=True,  # the ids that end a turn are all in stop_token_ids
                logprobs=0,  # of the sampled token alone
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
            prompt = {"prompt_token_ids": order["ids"]}
            self._engine.add_request(order["id"], prompt, params, lora_request=self.adapters_of_requests())
        except ValueError as error:
            return str(error)
        return ""


def _check_heads(size: int) -> None:
    """Raise ValueError for a width of heads that vLLM's attention on a CPU has no kernel for; it says so at a step."""
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    if size not in (known := CPUAttentionBackend.get_supported_head_sizes()):
        raise ValueError(f"on a CPU vLLM has no attention for heads of width {size}; it has {known}")


def _completion(output: Any) -> dict[str, Any]:
    """A finished request as JSON. ``versions``: of the weights that its tokens were sampled with."""
    said = output.outputs[0]
    ids = list(said.token_ids)
    return {
        "id": output.request_id,
        "ids": ids,
        "logprobs": [one[token].logprob for one, token in zip(said.logprobs, ids, strict=True)],
        "versions": sorted({span.version for span in said.weight_versions or ()}),
        "cached": output.num_cached_tokens or 0,
    }


def _fingerprint_held(worker: Any, dtype: str) -> list[int]:
    """The fingerprint of the weights that the worker's model computes with, in the precision ``dtype``."""
    import torch

    from turngate.agents.engines.weight_sums import fingerprint

    with torch.no_grad():
        return fingerprint(_tensors(worker.model_runner.get_model()), getattr(torch, dtype))


def _tensors(model: Any) -> Iterator[Any]:
    """Every weight once, as it is computed with.

    On a CPU, matrices are packed for a kernel, and a packed matrix is read back by multiplying it with the identity. A
    packed copy that differs from the matrix beside it is counted as well, so that it shows.
    """
    seen = set()
    for module in model.modules():
        packed = hasattr(module, "cpu_linear")
        for name, weight in module.named_parameters(recurse=False):
            matrix = packed and name == "weight"
            if matrix and (not weight.numel() or not _is_packed(module)):
                yield from _read_back(module)
            if weight.numel() and id(weight) not in seen:
                yield weight
            seen.add(id(weight))


def _read_back(module: Any) -> Iterator[Any]:
    """Columns of the matrix that the module's kernel multiplies with, some at a time."""
    import torch

    weight = module.weight
    if weight.numel():
        width = weight.shape[1]
    else:
        width = getattr(module, "input_size_per_partition", None) or module.input_size
    for units in torch.eye(width, dtype=weight.dtype).split(_READ_ROWS):  # type: ignore[no-untyped-call]
        yield module.cpu_linear(units, weight, None)


def _is_packed(module: Any) -> bool:
    """Whether the matrix that is packed for the module's kernel equals the one beside it."""
    import torch

    return torch.equal(torch.cat(list(_read_back(module))).T, module.weight)


def _shared_memory_engine() -> type:
    """vLLM's weight transfer engine that reads shared memory; made here because vllm is imported late."""
    from vllm.distributed.weight_transfer.base import (
        WeightTransferEngine,
        WeightTransferInitInfo,
        WeightTransferUpdateInfo,
    )
    from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

    @dataclass
    class SharedMemory(WeightTransferInitInfo):  # type: ignore[misc]
        fd: int

    @dataclass
    class SharedTensors(WeightTransferUpdateInfo):  # type: ignore[misc]
        dtype: str
        tensors: list[StoredPlace] = field(default_factory=list)

    class SharedMemoryEngine(WeightTransferEngine[SharedMemory, SharedTensors]):  # type: ignore[misc]
        init_info_cls, update_info_cls = SharedMemory, SharedTensors

        def init_transfer_engine(self, init_info: SharedMemory) -> None:
            self._memory = mmap.mmap(init_info.fd, os.fstat(init_info.fd).st_size)

        def start_weight_update(self) -> None:
            initialize_layerwise_reload(self.model)

        def update_weights(self, update_info: dict[str, Any]) -> None:
            self.receive_weights(self.parse_update_info(update_info))  # without waiting for a device that may not be

        def receive_weights(self, update_info: SharedTensors) -> None:
            self.model.load_weights(tensors_in(self._memory, update_info.tensors, update_info.dtype))

        def finish_weight_update(self) -> None:
            finalize_layerwise_reload(self.model, self.model_config)
            for module in self.model.modules():  # a head that is tied to the embedding keeps a packed copy of its own
                if hasattr(module, "cpu_linear") and module.weight.numel():
                    module.quant_method.process_weights_after_loading(module)

        def shutdown(self) -> None:
            pass

    return SharedMemoryEngine
