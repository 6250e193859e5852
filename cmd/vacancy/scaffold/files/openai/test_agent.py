import json
import threading
import unittest
from wsgiref.simple_server import make_server

import agent
import server


class AgentTest(unittest.TestCase):
    def ask(self, question, *chunks):
        """What the agent answers if the model's server sends chunks, and what that was asked."""

        def model(environ, start_response):
            self.asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            start_response("200 OK", [("Content-Type", "text/event-stream")])
            return [f"data: {chunk}\n\n".encode() for chunk in chunks]

        with make_server("127.0.0.1", 0, model, handler_class=server.Handler) as host:
            threading.Thread(target=host.handle_request, daemon=True).start()
            agent.URL = f"http://127.0.0.1:{host.server_port}"
            return list(agent.answer(question))

    def test_answers_with_the_model(self):
        said = [json.dumps({"choices": [{"delta": {"content": text}}]}) for text in ("Dear ", "Ann")]
        used = json.dumps({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 7}})
        question = {"message": "my name?", "history": [{"role": "caller", "text": "I am Ann"}, {"role": "agent", "text": "Hello"}]}
        self.assertEqual(self.ask(question, *said, used, "[DONE]"), ["Dear ", "Ann", {"input_tokens": 12, "output_tokens": 7}])
        self.assertEqual([m["role"] for m in self.asked["messages"]], ["system", "user", "assistant", "user"])
        self.assertEqual(self.asked["messages"][-1]["content"], "my name?")

    def test_refuses_half_an_answer(self):
        with self.assertRaises(ConnectionError):
            self.ask({"message": "Hi"}, json.dumps({"choices": [{"delta": {"content": "Dea"}}]}))


if __name__ == "__main__":
    unittest.main()
