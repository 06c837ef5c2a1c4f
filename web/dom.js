// SPDX-License-Identifier: Apache-2.0
// The few ways in which this page makes and changes its elements. Text from the server goes in as
// text only; nothing here takes markup.

// A name can be long or strange; what is shown of it ends somewhere.
export function clip(text, most = 160) {
    const value = text === null || text === undefined ? '' : String(text);
    return value.length > most ? `${value.slice(0, most)}…` : value;
}

export function el(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
        if (key === 'class') node.className = value;
        else if (key in node && !key.startsWith('aria')) node[key] = value;
        else node.setAttribute(key, value);
    }
    node.append(...children.filter((c) => c !== null));
    return node;
}

export function svg(tag, attributes = {}, ...children) {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
}

// Writes only what has changed: an unchanged page costs no layout.
export function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}
export function setAttribute(node, name, value) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}
export function setShown(node, shown) {
    if (node.hidden === shown) node.hidden = !shown;
}
export function setWidth(node, share) {
    const known = Number.isFinite(share) ? share : 0;
    const width = `${(Math.min(Math.max(known, 0), 1) * 100).toFixed(2)}%`;
    if (node.style.width !== width) node.style.width = width;
}

// Makes the children of `parent` those of `items`, in their order: kept by key, made and updated.
// A view is {node, update(item)} and may have close().
export function eachOf(parent, views, items, keyOf, make) {
    const seen = new Set();
    items.forEach((item, i) => {
        let key = keyOf(item);
        while (seen.has(key)) key += '+';
        seen.add(key);
        let view = views.get(key);
        if (!view) {
            view = make(item);
            views.set(key, view);
        }
        if (parent.children[i] !== view.node)
            parent.insertBefore(view.node, parent.children[i] || null);
        view.update(item, i);
    });
    for (const [key, view] of views) {
        if (seen.has(key)) continue;
        if (view.close) view.close();
        view.node.remove();
        views.delete(key);
    }
}

// A definition list whose rows are those of a table of figures: {label, value(x), note?(x),
// when?(x), level?(x)}. The rows stay, so that nothing moves; one with `when` comes and goes.
export function figureList(table, className) {
    const rows = table.map((row) => {
        const value = el('span', { class: 'value' });
        const note = el('span', { class: 'note' });
        return {
            row,
            value,
            note,
            node: el('div', {}, el('dt', {}, row.label), el('dd', {}, value, note)),
        };
    });
    const node = el('dl', { class: className }, ...rows.map((r) => r.node));
    return {
        node,
        update(subject) {
            for (const r of rows) {
                const shown = !r.row.when || r.row.when(subject);
                setShown(r.node, shown);
                if (!shown) continue;
                setText(r.value, clip(r.row.value(subject)));
                setText(r.note, r.row.note ? clip(r.row.note(subject)) : '');
                setAttribute(r.node, 'data-level', (r.row.level && r.row.level(subject)) || '');
            }
        },
    };
}
