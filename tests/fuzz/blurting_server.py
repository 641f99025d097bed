"""An MCP server over standard input and output that sends what a call's argument ``raw`` says, then answers the call.

``ID`` in it stands for the id of the call. Its tools only read, so it is started anew only where it was lost.
"""

import json
import os
import sys

TEXTS = {"type": "object", "properties": {"raw": {"type": "string"}}}
TOOLS = [
    {"name": name, "inputSchema": TEXTS, "annotations": {"readOnlyHint": True}, **more}
    for name, more in (("say", {}), ("fine", {}), ("sum", {"outputSchema": {"type": "object", "required": ["sum"]}}))
]


def send(message):
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


for line in sys.stdin:
    asked = json.loads(line)
    method, params, number = asked.get("method"), asked.get("params") or {}, asked.get("id")
    if method == "initialize":
        served = {"capabilities": {"tools": {}}, "serverInfo": {"name": "blurts", "version": "1"}}
        send({"id": number, "result": {"protocolVersion": params["protocolVersion"], **served}})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": TOOLS}})
    elif method == "tools/call":
        raw = (params.get("arguments") or {}).get("raw")
        if raw:
            os.write(1, raw.replace("ID", json.dumps(number)).encode("latin-1", errors="replace") + b"\n")
        send({"id": number, "result": {"content": [{"type": "text", "text": "fine"}]}})
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "no"}})
