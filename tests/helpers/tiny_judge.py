"""A real judge model: two layers of width 32 that learned to give one verdict; and a server that speaks for it.

As a program it serves the model in the folder named first, with the protocol of OpenAI's chat completions.
"""

import asyncio
import json
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import torch

from tests.helpers.scripted_judge import CRITERION, items, nonce
from turngate.agents import tiny
from turngate.agents.chat import Chat
from turngate.agents.policies.local import LocalPolicy
from turngate.judges.asking import ModelJudge, PolicyTextModel, Prompt
from turngate.judges.texts import JudgeId, item_of_text, pointwise
from turngate.judges.texts.injections import INJECTIONS
from turngate.judges.texts.items import MASTER_KEYS, NULL_ANSWERS

CONTEXT = 1200
NO_TEXT = '{"evidence": [], "verdict": "no", "score": 0}'
TOKENS = 40


def learn_to_say_no(steps=220):
    """Model and tokenizer. The verdict is the same for every prompt, so a few steps are enough."""
    torch.set_num_threads(1)
    work = [
        *items(4),
        *(item_of_text("n", f"task {n}", text) for n, text in enumerate((*MASTER_KEYS, *NULL_ANSWERS, *INJECTIONS))),
    ]
    prompts = [pointwise(one, CRITERION).prompt for one in work]
    tokenizer = tiny.train_tokenizer([*prompts, *[NO_TEXT] * 4], vocabulary=600)
    model = tiny.random_model(tokenizer, layers=2, width=32, heads=2, context=CONTEXT, seed=0)
    chat = Chat(tokenizer)
    said = torch.as_tensor(chat.encode_turn(NO_TEXT), dtype=torch.long)
    contexts = [torch.as_tensor(chat.opening(prompt), dtype=torch.long) for prompt in prompts]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 - step / steps)  # it settles, so that no prompt stays an exception
        context = contexts[step % len(contexts)]
        logits = model(torch.cat([context, said])[None]).logits[0, len(context) - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits, said)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval(), tokenizer


class Reciting(PolicyTextModel):
    """Puts the nonce of the question into what the model says: it is too small to learn to repeat one."""

    async def complete(self, prompt):
        reply = await super().complete(prompt)
        return replace(reply, text=reply.text.replace("{", f'{{"id": "{nonce(prompt.text)}", ', 1))


class TinyJudge(ModelJudge):
    """The model in a folder, reciting."""

    type: Literal["tests.helpers.tiny_judge:TinyJudge"] = "tests.helpers.tiny_judge:TinyJudge"

    def text_model(self, player):
        plain = super().text_model(player)
        return Reciting(plain._policy, plain._chat, plain.judge, context=plain._context)


def text_model(model, tokenizer, *, concurrency=4):
    chat = Chat(tokenizer)
    return Reciting(
        LocalPolicy(model, chat, concurrency=concurrency, order="ready"),
        chat,
        JudgeId(name="tiny", version="1"),
        context=CONTEXT,
    )


# --- the server ------------------------------------------------------------------------------------------------------


class Service:
    """The policy in an event loop of its own thread. Requests name how they want to be served by their model's name."""

    def __init__(self, folder):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.text_model = text_model(*tiny.load(folder, dtype="float32"), concurrency=16)
        self.seen = Counter()

    def complete(self, body):
        prompt = Prompt(
            name=f"request {time.monotonic_ns()}",
            text=body["messages"][0]["content"],
            seed=body["seed"],
            max_tokens=body["max_tokens"],
            temperature=body["temperature"],
        )
        return asyncio.run_coroutine_threadsafe(self._complete(prompt), self.loop).result(60)

    async def _complete(self, prompt):
        async with self.text_model.slot():
            return await self.text_model.complete(prompt)


def completion(content, reason="stop", refusal=None):
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        service, name = self.server.service, body["model"]
        if self.path != "/v1/chat/completions":
            return self.answer(404, {"error": "no such path"})
        if name == "locked" and self.headers["Authorization"] != "Bearer sesame":
            return self.answer(401, {"error": "no key"})
        service.seen[name, body["messages"][0]["content"]] += 1
        first = service.seen[name, body["messages"][0]["content"]] == 1
        if name == "slow":
            time.sleep(3)
        if name == "down" or (name == "shaky" and first):
            return self.answer(500 if name == "down" else 429, {"error": "busy"}, {"Retry-After": "0.01"})
        if name == "too long":
            return self.answer(400, {"error": "context length"})
        if name == "refusing":
            return self.answer(200, completion(None, refusal="I must not."))
        if name == "nonsense":
            return self.answer(200, {"choices": []})
        if name == "hangup":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        return self.answer(200, completion(service.complete(body).text))

    def answer(self, status, data, headers=None):
        body = json.dumps(data).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", "Content-Length": len(body), **(headers or {})}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.service = Service(sys.argv[1])
    print(server.server_port, flush=True)
    server.serve_forever()
