// SPDX-License-Identifier: Apache-2.0
// What the tests ask of the page as it is drawn: contrast from computed styles, and what can be
// used by keyboard.
window.audit = (() => {
    // Any CSS colour as red, green, blue (0-255) and alpha, by the browser's own reading.
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const known = new Map();
    function rgba(color) {
        if (!known.has(color)) {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = color;
            canvas.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
            known.set(color, [r, g, b, a / 255]);
        }
        return known.get(color);
    }
    const over = (top, ground) =>
        [0, 1, 2].map((i) => top[i] * top[3] + ground[i] * (1 - top[3])).concat(1);

    // The colours behind a node, from the nearest that is opaque upwards.
    function ground(node) {
        const layers = [];
        for (let n = node; n; n = n.parentElement) {
            const color = rgba(getComputedStyle(n).backgroundColor);
            if (color[3] > 0) layers.push(color);
            if (color[3] === 1) break;
        }
        return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
    }

    // WCAG 2.2, relative luminance and contrast ratio.
    function luminance([r, g, b]) {
        const [x, y, z] = [r, g, b].map((c) => {
            const s = c / 255;
            return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    }
    function ratio(a, b) {
        const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
        return (light + 0.05) / (dark + 0.05);
    }

    function contrast() {
        const low = [];
        let count = 0;
        const root = document.querySelector('dialog[open]') || document.body;
        const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const node = texts.currentNode.parentElement;
            if (
                !texts.currentNode.textContent.trim() ||
                !node.checkVisibility({ visibilityProperty: true })
            )
                continue;
            if (node.closest('.unseen, noscript, script')) continue;
            const style = getComputedStyle(node);
            let opacity = 1;
            for (let n = node; n; n = n.parentElement)
                opacity *= Number(getComputedStyle(n).opacity);
            const behind = ground(node);
            const [r, g, b, a] = rgba(style.color);
            const value = ratio(over([r, g, b, a * opacity], behind), behind);
            const size = parseFloat(style.fontSize);
            const is_large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
            count += 1;
            if (value < (is_large ? 3 : 4.5)) {
                low.push(
                    `${node.textContent.slice(0, 40)} (${node.className}) ${value.toFixed(2)}`,
                );
            }
        }
        return { count, low };
    }

    // Lines of charts and parts of bars against what they are drawn on: 3.0 (WCAG 1.4.11).
    function lines() {
        const style = (selector) => getComputedStyle(document.querySelector(selector));
        const behind = ground(document.querySelector('.chart'));
        const probe = document.querySelector('.probe');
        return [
            '--c1',
            '--c2',
            '--c3',
            '--c4',
            '--c5',
            '--p1',
            '--p3',
            '--p4',
            '--p5',
            '--ours',
            '--others',
            '--accent',
        ].filter((name) => {
            probe.style.color = `var(${name})`;
            return ratio(rgba(style('.probe').color), behind) < 3;
        });
    }

    // As it was when it was first asked for: readings that come meanwhile change what is written.
    const named = new WeakMap();
    function name(node) {
        const words =
            node.getAttribute('aria-label') || node.labels?.[0]?.textContent || node.textContent;
        if (!named.has(node)) named.set(node, words.trim());
        return named.get(node);
    }

    // A group of radio buttons is one stop.
    function usable() {
        return [...document.querySelectorAll('a[href], button, summary, input')]
            .filter(
                (n) =>
                    n.checkVisibility() &&
                    !n.closest('dialog') &&
                    !(n.type === 'radio' && !n.checked),
            )
            .map(name);
    }

    function here() {
        const node = document.activeElement;
        if (!node || node === document.body || node === document.documentElement) return null;
        const rings = [node, node.closest('.spans')]
            .filter(Boolean)
            .map((n) => getComputedStyle(n));
        const visible = rings.some(
            (s) => s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2,
        );
        const box = node.getBoundingClientRect();
        return { name: name(node), visible: visible && box.bottom > 0 && box.top < innerHeight };
    }

    return { contrast, lines, usable, here };
})();
