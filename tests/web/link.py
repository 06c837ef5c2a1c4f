# SPDX-License-Identifier: Apache-2.0
"""Cases of the page: what it is opened with, a range in its address and a token."""

import re
import time

from server import Server, need, quiet


def ranges(chromium):
    """hours that passed before the page was opened are charted, and the range is in the address"""
    with Server('h100x8', 0, '--interval', '0.1', '--speed', '100', '--cost-per-hour', '2') as server:
        end = time.monotonic() + 30
        while len(server.json('history?seconds=86400')['cards'][0]['at_ms']) < 5:
            need(time.monotonic() < end, 'five minutes')
            time.sleep(0.2)
        page = chromium.page()
        page.goto(server.url + '/#6h')
        page.wait("document.querySelectorAll('.spans input')[3]?.checked")
        label = "document.querySelector('.plot').getAttribute('aria-label') || ''"
        page.wait(f"/last 6 hours.*from \\d+ % to/.test({label})", what='six hours with figures')
        page.eval("document.querySelectorAll('.spans input')[4].click()")
        page.wait(f"/last 24 hours/.test({label})")
        need(page.eval('location.hash') == '#24h', 'the range in the address')
        page.eval('location.reload()')
        page.wait("document.querySelectorAll('.spans input')[4]?.checked")
        page.wait("/idle/.test(document.querySelector('#lost')?.textContent)", what='what was lost')
        said = page.eval("document.querySelector('#lost').textContent")
        need(re.fullmatch(r'Lost in [\d.]+ (min|h) on 8 GPUs: \d+ (s|min) idle \(\d+\.\d\d\), \d+ (s|min) slowed, [\d.]+ k?Wh', said), said)
        quiet(page, server)
        page.close()


def token(chromium):
    """a browser without the token is asked for it, and gets in with it"""
    secret = '0123456789abcdef0123456789abcdef'
    with Server('h100x8', env={'BATCHFIT_TOKEN': secret}) as server:
        page = chromium.page()
        page.call('Page.navigate', url=server.url)
        for given, wanted in (
            (secret[:-1] + 'x', "location.search && document.querySelector('#token')?.value === ''"),
            (secret, "document.body && document.body.dataset.ready === 'true'"),
        ):
            page.wait("!!document.querySelector('#token')", what='the question')
            page.eval(
                f"document.querySelector('#token').value = '{given}';"
                "document.querySelector('button').click()"
            )
            page.wait(wanted)
        need('token' not in page.eval('location.href'), 'the token in the address')
        page.close()
