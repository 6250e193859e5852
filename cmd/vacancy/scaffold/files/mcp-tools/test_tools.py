import json
import threading
import unittest
from urllib.request import Request, urlopen

import tools
from mcp_server import serve


class ToolsTest(unittest.TestCase):
    def ask(self, method, params):
        """The result that a host gets."""
        with serve(tools.READS, tools.WRITES, 0) as server:
            threading.Thread(target=server.handle_request, daemon=True).start()
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
            request = Request(f"http://127.0.0.1:{server.server_port}", body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=5) as reply:
                return json.load(reply)["result"]

    def call(self, name, **arguments):
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        return result["content"][0]["text"], result["isError"]

    def test_offers_its_tools(self):
        reads = {t["name"]: t["annotations"]["readOnlyHint"] for t in self.ask("tools/list", {})["tools"]}
        self.assertEqual(reads, {"find": True, "note": False})

    def test_keeps_and_finds_notes(self):
        self.assertEqual(self.call("find", subject="fox"), ("Foxes are red.", False))
        self.assertEqual(self.call("note", subject="hen", text="Hens lay eggs."), ("kept", False))
        self.assertEqual(self.call("find", subject="hen"), ("Hens lay eggs.", False))
        self.assertEqual(self.call("find", subject="cat"), ("KeyError('cat')", True))


if __name__ == "__main__":
    unittest.main()
