# SPDX-License-Identifier: Apache-2.0
"""The real `batchfit serve` of a machine, and what every page of it must keep to."""

import json
import os
import signal
import subprocess
import urllib.request

FOLDERS = {}  # batchfit: the program; machines: the recorded ones


def need(condition, what):
    if not condition:
        raise AssertionError(what)


class Server:
    """The real `batchfit serve` of a machine."""

    def __init__(self, machine, port=0, *options, env=None):
        where = (
            ['--demo']
            if machine == '--demo'
            else ['--machine', os.path.join(FOLDERS['machines'], machine)]
        )
        command = [FOLDERS['batchfit'], 'serve', *where, '--port', str(port), '--json', *options]
        self.child = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
        )
        text = ''
        while '}' not in text:
            line = self.child.stdout.readline()
            need(line, f'{" ".join(command)} ended with {self.child.poll()}')
            text += line
        told = json.loads(text)
        self.url, self.port = told['url'].rstrip('/'), told['port']

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.headers, answer.read()

    def json(self, path):
        return json.loads(self.get('/api/v1/' + path)[1])

    def close(self):
        self.child.send_signal(signal.SIGCONT)
        self.child.terminate()
        self.child.wait(10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def quiet(page, server, allowed=()):
    """Nothing was said, nothing was forbidden, nothing went elsewhere."""
    page.listen()
    bad = [
        s
        for s in page.said
        if s[0] in ('error', 'warning', 'exception', 'assert')
        and not any(word in s[1] for word in allowed)
    ]
    need(not bad, f'the console says {bad[:5]}')
    violations = page.eval('violations')
    need(not violations, f'against the policy: {violations[:5]}')
    away = [r for r in page.requests if not r.startswith((server.url + '/', 'data:', 'about:'))]
    need(not away, f'requests to elsewhere: {away[:5]}')
