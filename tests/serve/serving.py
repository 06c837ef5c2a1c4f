# SPDX-License-Identifier: Apache-2.0
"""A running `batchfit serve` for the tests of this folder, the real Prometheus, and how they are run (TAP)."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
MACHINES = os.path.join(SOURCE, 'tests', 'machines')
BINARY = None  # set by run()
TOKEN = '0123456789abcdef0123456789abcdef'


class Server:
    """`batchfit serve` on a free port; must end with status 0 and no word on stderr, unless it has something to log.
    files: how many it may have open."""

    def __init__(self, *options, machine='h100x8', env=None, files=None, logs=False):
        self.logs, self.log = logs, ''
        command = ['sh', '-c', f'ulimit -n {files}; exec "$@"', 'sh'] if files else []
        command += [BINARY, 'serve', '--port', '0', '--json']
        if machine:
            command += ['--machine', os.path.join(MACHINES, machine)]
        self.child = subprocess.Popen(command + list(options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      env={**os.environ, **(env or {})})
        text = ''
        for line in self.child.stdout:
            text += line
            if line.startswith('}'):
                break
        assert text, self.child.stderr.read()
        self.said = json.loads(text)
        self.port = self.said['port']

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        begin = time.monotonic()
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        out, err = self.child.communicate(timeout=20)
        if kind is None:
            assert self.child.returncode == 0, f'status {self.child.returncode}: {err}'
            assert (self.logs or not err) and not out, f'it said {out!r} {err!r}'
            self.log = err
            assert time.monotonic() - begin < 3, 'it took long to end'

    def get(self, path, headers=None, method='GET', source=None, timeout=30):
        """(status, headers, body) of one request on a connection of its own."""
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout,
                                                           source_address=(source, 0) if source else None)) as link:
            link.request(method, path, headers=headers or {})
            answer = link.getresponse()
            return answer.status, answer.headers, answer.read()

    def connect(self, source=None, receive_bytes=None):
        link = socket.socket()
        if receive_bytes:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        if source:
            link.bind((source, 0))
        link.settimeout(10)
        link.connect(('127.0.0.1', self.port))
        return link

    def raw(self, data, timeout=2, answers=None):
        """All that comes back for these bytes until the server closes, so many whole answers are there, or, where none are awaited, it says
        nothing for a while."""
        with contextlib.closing(self.connect()) as link:
            link.settimeout(30 if answers else timeout)
            got = b''
            with contextlib.suppress(OSError):
                link.sendall(data)
                while not answers or whole_answers(got) < answers:
                    part = link.recv(65536)
                    if not part:
                        break
                    got += part
            return got

    def metric(self, name, **how):
        """The sum of a metric's series; None where there is none."""
        text = self.get('/metrics', **how)[2].decode()
        values = re.findall(rf'^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$', text, re.M)
        return sum(map(float, values)) if values else None

    def resident(self):
        with open(f'/proc/{self.child.pid}/statm', encoding='ascii') as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGESIZE')


def statuses(raw):
    """The status of each answer in what came back."""
    return [int(n) for n in re.findall(rb'^HTTP/1\.[01] (\d{3})', raw, re.M)]


def whole_answers(raw):
    """How many of the answers in what came back have all of their body."""
    count = 0
    while b'\r\n\r\n' in raw:
        head, raw = raw.split(b'\r\n\r\n', 1)
        length = re.search(rb'(?mi)^content-length: *(\d+)', head)
        length = int(length[1]) if length else 0
        if len(raw) < length:
            break
        raw = raw[length:]
        count += 1
    return count


def certificate(folder, *key, addresses=('127.0.0.1',)):
    """(certificate, key) for localhost; key: openssl's words, an elliptic curve's without any."""
    files = [os.path.join(folder, name) for name in ('cert.pem', 'key.pem')]
    names = ','.join(['DNS:localhost', *(f'IP:{a}' for a in addresses)])
    subprocess.run(['openssl', 'req', '-x509', '-newkey', *(key or ('ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1')), '-nodes', '-out', files[0],
                    '-keyout', files[1], '-days', '2', '-subj', '/CN=localhost', '-addext', f'subjectAltName={names}'], check=True, capture_output=True)
    return files


class Prometheus:
    """Debian's, with this config, on a port of its own."""

    def __init__(self, folder, config):
        self.folder = folder
        with open(os.path.join(folder, 'prometheus.yml'), 'w', encoding='utf-8') as f:
            f.write(config)
        self.log = os.path.join(folder, 'log')
        self.url = self.child = None

    def said(self):
        with open(self.log, encoding='utf-8') as f:
            return f.read()

    def listens(self):
        """Its port is taken from its log, as it has no other way to tell."""
        found = re.search(r'address=127\.0\.0\.1:([1-9]\d*)', self.said())
        if found:
            self.url = f'http://127.0.0.1:{found[1]}'
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                return urllib.request.urlopen(self.url + '/-/ready', timeout=2).status == 200
        return False

    def __enter__(self):
        with open(self.log, 'w', encoding='utf-8') as log:
            self.child = subprocess.Popen(['prometheus', f'--config.file={self.folder}/prometheus.yml', f'--storage.tsdb.path={self.folder}/data',
                                           '--web.listen-address=127.0.0.1:0', '--log.level=info'], stdout=log, stderr=log)
        if not wait_for(self.listens, 60):
            self.__exit__()
            raise AssertionError('Prometheus does not start: ' + self.said()[-2000:])
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait(20)

    def ask(self, path, **question):
        with urllib.request.urlopen(f'{self.url}/api/v1/{path}?{urllib.parse.urlencode(question)}', timeout=10) as answer:
            return json.load(answer)['data']

    def value(self, query):
        return [float(r['value'][1]) for r in self.ask('query', query=query)['result']]


def wait_for(what, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return bool(what())


def run(module):
    """TAP of the module's test_ functions; names after the binary choose some."""
    global BINARY
    if len(sys.argv) < 2:
        sys.exit(f'usage: {sys.argv[0]} BATCHFIT [TEST...]')
    BINARY = os.path.abspath(sys.argv[1])
    tests = [(n, f) for n, f in vars(module).items() if n.startswith('test_') and (not sys.argv[2:] or n in sys.argv[2:])]
    print(f'1..{len(tests)}', flush=True)
    failed = 0
    for number, (name, test) in enumerate(tests, 1):
        begin = time.monotonic()
        try:
            test()
            result = 'ok'
        except Exception:  # a test may fail in any way; the next one goes on
            failed += 1
            result = 'not ok'
            print('# ' + traceback.format_exc().strip().replace('\n', '\n# '))
        print(f'{result} {number} - {(test.__doc__ or name).strip()} ({time.monotonic() - begin:.1f} s)', flush=True)
    return 1 if failed else 0
