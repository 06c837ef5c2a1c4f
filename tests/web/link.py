# SPDX-License-Identifier: Apache-2.0
"""Cases of the page: what it is opened with, a range in its address and a token, a stretch of time dragged over, its order."""

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


def asleep(chromium):
    """a phone that slept says how old its figures are when it wakes, and fetches new ones at once"""
    before = (
        'window.opened = 0; const Real = EventSource;'
        'window.EventSource = class extends Real { constructor(...a) { super(...a); opened += 1; } };'
        "window.words = []; addEventListener('load', () => new MutationObserver(() => words.push("
        "document.body.dataset.link + ' ' + document.getElementById('link-text').textContent))"
        ".observe(document.body, {attributes: true, attributeFilter: ['data-link']}));"
    )
    with Server('laptop') as server:
        page = chromium.page(before=before)
        page.goto(server.url)
        page.wait("document.body.dataset.link === 'live'")
        opened = page.eval('opened')
        page.eval(
            'words.length = 0; { const real = Date.now; Date.now = () => real() + 7200e3; }'
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        page.wait(f'opened > {opened}', 4, what='a new stream')
        page.wait("document.body.dataset.link === 'live'", 10)
        words = page.eval('words')
        need(words[0].startswith('stale stale: no data for 2'), words)
        quiet(page, server)
        page.close()


def clock(chromium):
    """a server whose clock is set back by two hours, and on by four: the charts go on, and no hours are missing that never were"""
    before = (
        'window.ahead_ms = window.heard = 0; const Real = EventSource;'
        'window.EventSource = class extends Real { addEventListener(kind, listener) {'
        'super.addEventListener(kind, (event) => { const s = JSON.parse(event.data); s.at_ms += ahead_ms; s.cards.forEach((c) => { c.gauges.power_watts = watts; });'
        'window.heard += 1; listener({data: JSON.stringify(s)}); }); } }; window.watts = 123;'
    )
    label = "[...document.querySelectorAll('.plot')].find((p) => /power/i.test(p.getAttribute('aria-label'))).parentElement.textContent"
    with Server('h100x8', 0, '--interval', '0.25') as server:
        page = chromium.page(before=before)
        page.goto(server.url)
        page.wait('heard > 8')
        page.wait(f"/123 W/.test({label})", what='a chart of power')
        page.eval('ahead_ms = -7200e3; watts = 371')
        page.wait(f'/371 W/.test({label})', 20, what='what came after the clock was set back')
        page.eval('ahead_ms = 7200e3; watts = 372')
        said = label.replace('parentElement.textContent', "getAttribute('aria-label')")
        page.wait(f'/now 372 W, from 123 W/.test({said})', 20, what='what was before and after the clock was set on')
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


def stretch(chromium):
    """a stretch dragged over in a chart is what all charts show, and is in the address; Escape goes back"""
    with Server('h100x8', 0, '--interval', '0.1', '--speed', '100') as server:
        end = time.monotonic() + 30
        while len(server.json('history?seconds=86400')['cards'][0]['at_ms']) < 5:
            need(time.monotonic() < end, 'five minutes')
            time.sleep(0.2)
        page = chromium.page()
        page.goto(server.url + '/#1h')
        label = "document.querySelectorAll('.plot')[1].getAttribute('aria-label') || ''"
        page.wait(f"/last hour. .*from [\\d.]+ [GM]iB to/.test({label})")
        box = page.eval("(() => { const r = document.querySelector('.plot canvas').getBoundingClientRect(); return [r.x, r.y, r.width, r.height] })()")
        at = {'y': box[1] + box[3] / 2, 'button': 'left', 'clickCount': 1}
        for kind, share in (('mousePressed', 0.75), ('mouseMoved', 0.9), ('mouseReleased', 0.99)):
            page.call('Input.dispatchMouseEvent', type=kind, x=box[0] + box[2] * share, buttons=1, **at)
        page.wait("/^#\\d+-\\d+$/.test(location.hash)", what='the stretch in the address')
        first, last = map(int, page.eval('location.hash')[1:].split('-'))
        need(400 < last - first < 1300, f'{last - first} seconds')
        page.wait(f"/\\d+:\\d+:\\d+ to \\d+:\\d+:\\d+. .*from [\\d.]+ [GM]iB to/.test({label})", what='all charts show it')
        stands = page.eval(label)
        time.sleep(1)
        need(page.eval(label).split('now')[0] == stands.split('now')[0], 'it moves')
        page.eval('location.reload()')
        page.wait(f"/\\d+:\\d+:\\d+ to \\d+:\\d+:\\d+. .*from/.test({label})", what='opened by its link')
        need(not page.eval("[...document.querySelectorAll('.spans input')].some((i) => i.checked)"), 'a range is chosen')
        page.eval("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
        page.wait("/^#(10min|1h)$/.test(location.hash)", what='back')
        quiet(page, server)
        page.close()


def order(chromium):
    """from phone to wide screen: the sentence, alerts, runs, GPUs, charts; what is over; a part's own figures"""
    with Server('h100x8', 0, '--interval', '0.5', '--speed', '20') as server:
        for width in (360, 1280):
            page = chromium.page(width=width, phone=width < 500)
            page.goto(server.url)
            page.wait("document.querySelector('#verdict').dataset.level === 'warn'", 30, 'the rules have looked')
            said = page.eval("document.querySelector('#verdict').innerText")
            need(re.match(r'WARNING GPU 5, time throttled: [\d.]+ %', said), said)
            parts = ['#verdict', '#alerts', '#overview', '#detail', '#machine']
            tops = [page.eval(f"document.querySelector('{p}').getBoundingClientRect().top") for p in parts]
            need(tops[0] < min(tops[1:]), f'{tops}: the sentence is not first')
            if width < 500:
                need(tops == sorted(tops), f'{tops}')
            over = ("{id: 'trend.heat', what: 'time throttled', severity: 'warning', card: 3, "
                    "since_ms: Date.now() - 7200e3, until_ms: Date.now() - 3600e3}")
            page.eval("import('/status.js').then((m) => { window.statusOf = m.drawStatus; })")
            page.wait('!!window.statusOf')
            told = page.eval(f"statusOf({{cards: [], runs: [], findings: [], resolved: [{over}], at_ms: Date.now()}}, []); "
                             "document.querySelector('#passed').innerText")
            need(re.fullmatch(r'Over since then: time throttled, [\d:]+ to [\d:]+', told), told)
            quiet(page, server)
            page.close()
    with Server('a100-mig') as server:
        page = chromium.page()
        page.goto(server.url)
        tile = page.eval("document.querySelector('.tile').innerText")
        need(re.search(r'MiB\s+of [\d.]+ GiB', tile) and 'whole GPU' in tile, tile)
        page.close()


LINK_CASES = ranges, asleep, clock, token, stretch, order
