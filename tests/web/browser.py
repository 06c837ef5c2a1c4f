# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven through its DevTools protocol over two pipes.

JSON messages, each ended by a NUL, go out on the browser's descriptor 3 and come in on 4
(--remote-debugging-pipe): no port is opened and no library is needed.
"""

import base64
import itertools
import json
import os
import selectors
import shutil
import signal
import tempfile
import time

FLAGS = [
    '--headless=new',
    '--remote-debugging-pipe',
    '--disable-dev-shm-usage',
    '--disable-gpu',
    '--no-first-run',
    '--no-default-browser-check',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-default-apps',
    '--disable-extensions',
    '--disable-sync',
    '--disable-breakpad',
    '--mute-audio',
    '--hide-scrollbars',
    '--force-color-profile=srgb',
    '--force-device-scale-factor=1',
    '--disable-features=Translate,OptimizationHints,MediaRouter',
    # Whatever would leave this machine fails: no name is found.
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
]


def find():
    """The browser's path, or None."""
    for name in ('chromium', 'chromium-browser', 'google-chrome', 'chrome'):
        path = shutil.which(name)
        if path:
            return path
    return None


class Failed(Exception):
    """The browser said no, or nothing in time."""


class Browser:
    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix='batchfit-web-')
        to_child, self.out = os.pipe()
        self.inp, from_child = os.pipe()
        # Descriptors of ours may be 3 and 4 themselves: move them out of the way first.
        high = [os.dup(fd) for fd in (to_child, from_child)]
        for fd in (to_child, from_child):
            os.close(fd)
        args = [path, *FLAGS, f'--user-data-dir={self.profile}']
        if os.geteuid() == 0:
            args.append('--no-sandbox')
        with open(os.path.join(self.profile, 'log'), 'w', encoding='utf-8') as log:
            actions = [
                (os.POSIX_SPAWN_DUP2, log.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, log.fileno(), 2),
                (os.POSIX_SPAWN_DUP2, high[0], 103),
                (os.POSIX_SPAWN_DUP2, high[1], 104),
                (os.POSIX_SPAWN_DUP2, 103, 3),
                (os.POSIX_SPAWN_DUP2, 104, 4),
                (os.POSIX_SPAWN_CLOSE, 103),
                (os.POSIX_SPAWN_CLOSE, 104),
            ]
            env = {**os.environ, 'HOME': self.profile}
            self.pid = os.posix_spawn(
                path, [*args, 'about:blank'], env, file_actions=actions, setpgroup=0
            )
        for fd in high:
            os.close(fd)
        self.ids = itertools.count(1)
        self.buffer = b''
        self.events = []
        self.answers = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.inp, selectors.EVENT_READ)

    def pump(self, seconds):
        """Takes in what has arrived, waiting at most `seconds` for something."""
        if not self.selector.select(seconds):
            return
        data = os.read(self.inp, 1 << 20)
        if not data:
            with open(os.path.join(self.profile, 'log'), encoding='utf-8', errors='replace') as log:
                raise Failed('the browser ended: ' + log.read()[-2000:])
        *messages, self.buffer = (self.buffer + data).split(b'\0')
        for message in map(json.loads, messages):
            if 'id' in message:
                self.answers[message['id']] = message
            else:
                self.events.append(message)

    def call(self, method, session=None, timeout=30, **params):
        number = next(self.ids)
        message = {'id': number, 'method': method, 'params': params}
        if session:
            message['sessionId'] = session
        data = json.dumps(message).encode() + b'\0'
        while data:
            data = data[os.write(self.out, data) :]
        end = time.monotonic() + timeout
        while number not in self.answers:
            if time.monotonic() > end:
                raise Failed(f'{method}: no answer within {timeout} s')
            self.pump(0.2)
        answer = self.answers.pop(number)
        if 'error' in answer:
            raise Failed(f'{method}: {answer["error"]["message"]}')
        return answer['result']

    def page(self, **how):
        return Page(self, **how)

    def close(self):
        for fd in (self.out, self.inp):
            os.close(fd)
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                break
            end = time.monotonic() + 3
            while time.monotonic() < end:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    break
                time.sleep(0.02)
            else:
                continue
            break
        shutil.rmtree(self.profile, ignore_errors=True)


class Page:
    """One tab. What it says (console, violations, requests) is kept in `said` and `requests`."""

    def __init__(self, browser, width=1440, height=1000, theme='light', before=None, phone=False):
        self.browser = browser
        target = browser.call('Target.createTarget', url='about:blank')['targetId']
        self.target = target
        self.session = browser.call('Target.attachToTarget', targetId=target, flatten=True)[
            'sessionId'
        ]
        self.said, self.requests = [], []
        for domain in ('Page', 'Runtime', 'Log', 'Network', 'DOM', 'CSS', 'Accessibility'):
            self.call(f'{domain}.enable')
        self.size(width, height, phone)
        self.theme(theme)
        self.call(
            'Page.addScriptToEvaluateOnNewDocument',
            source=(
                "window.violations = []; document.addEventListener('securitypolicyviolation', "
                "(e) => violations.push(`${e.violatedDirective}: ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));"
            ),
        )
        if before:
            self.call('Page.addScriptToEvaluateOnNewDocument', source=before)

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def size(self, width, height, phone=False):
        self.call(
            'Emulation.setDeviceMetricsOverride',
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def theme(self, name, motion='no-preference'):
        self.call(
            'Emulation.setEmulatedMedia',
            features=[
                {'name': 'prefers-color-scheme', 'value': name},
                {'name': 'prefers-reduced-motion', 'value': motion},
            ],
        )

    def listen(self):
        """Sorts the events that have come for this page."""
        self.browser.pump(0)
        rest = []
        for event in self.browser.events:
            if event.get('sessionId') != self.session:
                rest.append(event)
                continue
            method, params = event['method'], event['params']
            if method == 'Runtime.consoleAPICalled':
                texts = [str(a.get('value', a.get('description', ''))) for a in params['args']]
                self.said.append((params['type'], ' '.join(texts)))
            elif method == 'Runtime.exceptionThrown':
                details = params['exceptionDetails']
                what = details.get('exception', {}).get('description', '')
                self.said.append(('exception', f'{details["text"]} {what}'))
            elif method == 'Log.entryAdded':
                entry = params['entry']
                self.said.append((entry['level'], f'{entry["text"]} {entry.get("url", "")}'))
            elif method == 'Network.requestWillBeSent':
                self.requests.append(params['request']['url'])
        self.browser.events = rest

    def goto(self, url, timeout=30):
        self.call('Page.navigate', url=url)
        self.wait(
            "document.body && document.body.dataset.ready === 'true'", timeout, f'{url} is drawn'
        )

    def eval(self, text, timeout=30):
        result = self.browser.call(
            'Runtime.evaluate',
            session=self.session,
            timeout=timeout,
            expression=text,
            returnByValue=True,
            awaitPromise=True,
        )
        if 'exceptionDetails' in result:
            details = result['exceptionDetails']
            raise Failed(
                f'{text[:200]}: {details.get("exception", {}).get("description", details["text"])}'
            )
        return result['result'].get('value')

    def wait(self, condition, timeout=15, what=None):
        end = time.monotonic() + timeout
        while True:
            try:
                value = self.eval(condition)
            except Failed:
                value = None  # the document is being replaced
            if value:
                return value
            if time.monotonic() > end:
                self.listen()
                raise Failed(
                    f'not within {timeout} s: {what or condition}; the page said {self.said[-3:]}'
                )
            self.browser.pump(0.1)

    def key(self, key, shift=False):
        codes = {
            'Tab': 9,
            'Enter': 13,
            'Escape': 27,
            'ArrowLeft': 37,
            'ArrowUp': 38,
            'ArrowRight': 39,
            'ArrowDown': 40,
        }
        code = codes.get(key, ord(key[0].upper()))
        text = {'text': '\r'} if key == 'Enter' else {'text': key} if len(key) == 1 else {}
        how = {'key': key, 'windowsVirtualKeyCode': code, 'modifiers': 8 if shift else 0}
        self.call('Input.dispatchKeyEvent', type='keyDown' if text else 'rawKeyDown', **how, **text)
        self.call('Input.dispatchKeyEvent', type='keyUp', **how)

    def screenshot(self, path, whole=False):
        how = {'captureBeyondViewport': True} if whole else {}
        data = base64.b64decode(self.call('Page.captureScreenshot', format='png', **how)['data'])
        with open(path, 'wb') as f:
            f.write(data)

    def pdf(self, path):
        data = base64.b64decode(self.call('Page.printToPDF', printBackground=True)['data'])
        with open(path, 'wb') as f:
            f.write(data)
        return data

    def heap_bytes(self):
        for _ in range(3):
            self.call('HeapProfiler.collectGarbage')
        return self.call('Runtime.getHeapUsage')['usedSize']

    def close(self):
        self.browser.call('Target.closeTarget', targetId=self.target)
