"""page_server_test.py STEELYARD: what `steelyard page` serves, and what it refuses."""

import http.client
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def ask(port, target, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, target, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{port}")
    connection.endheaders()
    reply = connection.getresponse()
    return reply.status, reply.getheader("Content-Type"), reply.read()


def main():
    steelyard = sys.argv[1]
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place, "page")
        (folder / "core").mkdir(parents=True)
        (folder / "index.html").write_text("<!doctype html><p>the page")
        core = bytes(range(256)) * 4096
        (folder / "core" / "steelyard.wasm").write_bytes(core)
        pathlib.Path(place, "secret.txt").write_text("not yours")
        os.symlink("../secret.txt", folder / "link.txt")
        server = subprocess.Popen(
            [steelyard, "page", "--no-open", "--folder", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            address = server.stdout.readline()
            port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\n", address).group(1))
            status, kind, body = ask(port, "/")
            assert (status, body) == (200, b"<!doctype html><p>the page") and kind.startswith("text/html")
            assert ask(port, "/index.html?x=1")[0] == 200
            status, kind, body = ask(port, "/core/steelyard.wasm")
            assert (status, kind, body) == (200, "application/wasm", core)
            assert ask(port, "/", method="HEAD")[2] == b""
            for outside in ("/../secret.txt", "/core/../../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/link.txt",
                            "//etc/passwd", "/nothing.js", "/core", "/core/"):
                status, _, body = ask(port, outside)
                assert status == 404 and b"not yours" not in body, outside
            for wrong in ("/%zz", "/a\\b", "/%00", "/%2"):
                assert ask(port, wrong)[0] == 400, wrong
            assert ask(port, "/", method="POST")[0] == 405
            # A page of another origin that points its name at this machine.
            assert ask(port, "/", host="evil.example")[0] == 403
            assert ask(port, "/", host=f"localhost:{port}")[0] == 200
            # One that says nothing, or too much, does not stop the others.
            silent = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            silent.connect()
            assert ask(port, "/")[0] == 200
            status = ask(port, "/" + "a" * 20000)[0]
            assert status in (431, 404, 400), status
            assert ask(port, "/")[0] == 200
            silent.close()
            taken = subprocess.run([steelyard, "page", "--no-open", "--folder", folder, "--port", str(port)], capture_output=True, text=True)
            assert taken.returncode == 2 and "E630" in taken.stderr, taken
        finally:
            server.terminate()
            server.wait(20)
        for words, code in ((["--folder", place], "E630"), (["--port", "99999"], "E005"), (["llama-3.1-8b"], "E004")):
            wrong = subprocess.run([steelyard, "page", "--no-open", *words], capture_output=True, text=True)
            assert wrong.returncode == 2 and "error[E" in wrong.stderr, (words, wrong)
    print("page: served what is in it, and nothing else")


if __name__ == "__main__":
    main()
