# SPDX-License-Identifier: Apache-2.0
"""The fleet's page, over a history that is made up (tests/serve/fleet_runs.py)."""

import contextlib
import os
import sys
import tempfile

from server import FOLDERS, Server, need, quiet

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'serve'))
from fleet_runs import history  # noqa: E402

DRAWN = "document.querySelectorAll('main table').length === 3"


@contextlib.contextmanager
def fleet_server():
    """`batchfit serve --fleet` over it; .url is the machine's page."""
    with tempfile.TemporaryDirectory() as folder:
        with Server('no-driver', 0, '--fleet', '7d', '--store', history(folder, FOLDERS['batchfit'])) as server:
            yield server


def rows(page, table):
    return page.eval(f"[...document.querySelectorAll('#{table} tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))")


def fleet(chromium):
    """which GPUs idle, which trainings were given twice what they used, which models run; from the keyboard, and on a phone"""
    with fleet_server() as server:
        for width in (1280, 360):
            page = chromium.page(width=width, phone=width < 500)
            page.call('Page.navigate', url=server.url + '/fleet.html')
            page.wait(DRAWN, 30, 'the history has answered')
            said = page.eval("document.querySelector('#said').innerText")
            need(said.startswith('1 of 3 GPUs idle; 2 trainings were given twice the memory they used; the last 7 days of '), said)
            cards = {r[1]: r for r in rows(page, 'cards')}
            need([cards[c][-1] for c in ('aaaa1111', 'bbbb1111', 'cccc1111')] == ['', '', 'idles'], cards)
            need(cards['aaaa1111'][2:5] == ['50 %', '84', '4'], cards)
            need(rows(page, 'oversized') == [['vit_base', 'NVIDIA L4', '2', '22.0 GiB', '10.0 GiB', '2.2']], rows(page, 'oversized'))
            need([r[0] for r in rows(page, 'models')] == ['vit_base', 'llama', 'resnet50'], rows(page, 'models'))
            need(page.eval("[...document.querySelectorAll('th')].every((t) => t.innerText.trim())"), 'a column without a name')
            wide = page.eval('document.documentElement.scrollWidth')
            need(wide <= width, f'{wide} pixels wide on {width}')
            # What is wider than the screen is reached by the keyboard, too.
            need(page.eval("[...document.querySelectorAll('.wide')].every((w) => w.tabIndex === 0 && w.getAttribute('aria-labelledby'))"), 'no way to the rest of a table')
            quiet(page, server)
            page.close()
        page = chromium.page()
        page.goto(server.url)
        page.wait("!!document.querySelector('#fleet-link')?.offsetParent", what='the way from the machine to the fleet')
        page.close()
    with Server('no-driver') as server:
        page = chromium.page()
        page.goto(server.url)
        page.wait("document.querySelector('#version')?.textContent", what='the machine is known')
        need(page.eval("document.querySelector('#fleet-link').hidden"), 'a way to no fleet')
        page.close()


FLEET_CASES = (fleet,)
