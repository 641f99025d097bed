// The engine's eyes: a library in a world of its own beside the page. It shares the document with the page but none of
// the page's objects, so nothing that a page's script redefines changes what is measured. Properties are read through
// the prototypes, because a form's or document's own names can be taken by elements (<input name="children">).
(() => {
  const reader = (proto, name) => Function.prototype.call.bind(Object.getOwnPropertyDescriptor(proto, name).get);
  const method = (proto, name) => Function.prototype.call.bind(proto[name]);
  const D = Document.prototype, E = Element.prototype, N = Node.prototype;
  const nodeType = reader(N, "nodeType"), firstChild = reader(N, "firstChild"), nextSibling = reader(N, "nextSibling");
  const parentNode = reader(N, "parentNode"), textContent = reader(N, "textContent"), connected = reader(N, "isConnected");
  const ownerDocument = reader(N, "ownerDocument"), getRoot = method(N, "getRootNode"), nodeValue = reader(N, "nodeValue");
  const localName = reader(E, "localName"), getAttr = method(E, "getAttribute"), hasAttr = method(E, "hasAttribute");
  const attributes = reader(E, "attributes"), matches = method(E, "matches"), closest = method(E, "closest");
  const shadowRoot = reader(E, "shadowRoot"), assignedSlot = reader(E, "assignedSlot"), rectOf = method(E, "getBoundingClientRect");
  const rectsOf = method(E, "getClientRects"), scrollIntoView = method(E, "scrollIntoView"), queryAll = method(E, "querySelectorAll");
  const namespace = reader(E, "namespaceURI"), clientLeft = reader(E, "clientLeft"), clientTop = reader(E, "clientTop");
  const assignedNodes = method(HTMLSlotElement.prototype, "assignedNodes");
  const frameDocument = reader(HTMLIFrameElement.prototype, "contentDocument");
  const documentBody = reader(D, "body"), documentRoot = reader(D, "documentElement"), documentTitle = reader(D, "title");
  const defaultView = reader(D, "defaultView"), activeElement = reader(D, "activeElement"), pointed = method(D, "elementFromPoint");
  const byId = method(D, "getElementById"), readyState = reader(D, "readyState"), documentURL = reader(D, "URL");
  const inputType = reader(HTMLInputElement.prototype, "type"), inputValue = reader(HTMLInputElement.prototype, "value");
  const inputChecked = reader(HTMLInputElement.prototype, "checked"), indeterminate = reader(HTMLInputElement.prototype, "indeterminate");
  const areaValue = reader(HTMLTextAreaElement.prototype, "value"), optionSelected = reader(HTMLOptionElement.prototype, "selected");
  const optionText = reader(HTMLOptionElement.prototype, "text"), optionValue = reader(HTMLOptionElement.prototype, "value");
  const selectOptions = reader(HTMLSelectElement.prototype, "options"), isMultiple = reader(HTMLSelectElement.prototype, "multiple");
  const labelControl = reader(HTMLLabelElement.prototype, "control"), editable = reader(HTMLElement.prototype, "isContentEditable");
  const isEditable = (el) => { try { return editable(el); } catch { return false; } }; // not an HTML element
  const shadowHost = reader(ShadowRoot.prototype, "host"), shadowPointed = method(ShadowRoot.prototype, "elementFromPoint");
  const shadowById = method(DocumentFragment.prototype, "getElementById");
  const clean = (text) => text.replace(/[\u200b\u00ad]/g, "").replace(/\s+/g, " ").trim();
  const isElement = (node) => nodeType(node) === 1;
  const tag = (el) => localName(el).toLowerCase();
  const is = (el, name) => localName(el) === name && namespace(el) === "http://www.w3.org/1999/xhtml";
  const style = (el) => getComputedStyle(el);
  const siblings = (parent) => {
    const found = [];
    for (let node = firstChild(parent); node; node = nextSibling(node)) found.push(node);
    return found;
  };
  const insideOf = (frame) => { try { return frameDocument(frame); } catch { return null; } };
  // The children as they are drawn: of the shadow root, of the slot, of the frame.
  const drawn = (el) => {
    const root = shadowRoot(el);
    if (root) return siblings(root);
    if (is(el, "slot")) { const given = assignedNodes(el); if (given.length) return [...given]; }
    if (is(el, "iframe")) { const inner = insideOf(el); const body = inner && documentBody(inner); return body ? [body] : []; }
    return siblings(el);
  };
  const above = (node) => {
    const slot = isElement(node) && assignedSlot(node);
    if (slot) return slot;
    const parent = parentNode(node);
    if (!parent) return null;
    if (nodeType(parent) === 11) return shadowHost(parent);
    if (nodeType(parent) === 9) { const view = defaultView(parent); return view && view !== window ? view.frameElement : null; }
    return parent;
  };
  const within = (el, node) => { for (; node; node = above(node)) if (node === el) return true; return false; };

  // --- roles
  const ROLES = {
    address: "group", article: "article", aside: "complementary", blockquote: "blockquote", button: "button",
    caption: "caption", code: "code", datalist: "listbox", dd: "definition", del: "deletion", details: "group",
    dfn: "term", dialog: "dialog", dt: "term", em: "emphasis", fieldset: "group", figure: "figure", h1: "heading",
    h2: "heading", h3: "heading", h4: "heading", h5: "heading", h6: "heading", hr: "separator", html: "document",
    ins: "insertion", li: "listitem", main: "main", mark: "mark", math: "math", menu: "list", meter: "meter",
    nav: "navigation", ol: "list", optgroup: "group", option: "option", output: "status", p: "paragraph",
    progress: "progressbar", search: "search", strong: "strong", sub: "subscript", sup: "superscript", svg: "img",
    table: "table", tbody: "rowgroup", textarea: "textbox", tfoot: "rowgroup", thead: "rowgroup", time: "time",
    tr: "row", ul: "list", iframe: "iframe", canvas: "canvas",
  };
  const INPUTS = {
    button: "button", checkbox: "checkbox", image: "button", number: "spinbutton", radio: "radio", range: "slider",
    reset: "button", submit: "button", search: "searchbox", hidden: null, file: "button", color: "textbox",
  };
  const WIDGETS = new Set(("button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio option " +
    "radio searchbox slider spinbutton switch tab textbox treeitem scrollbar").split(" "));
  const NAMED_BY_CONTENT = new Set(("button cell checkbox columnheader gridcell heading link menuitem menuitemcheckbox " +
    "menuitemradio option radio row rowheader switch tab tooltip treeitem").split(" "));
  const SHAPES = new Set("rect circle ellipse line path polygon polyline text image".split(" "));
  const inSection = (el) => { const up = above(el); return !!(up && isElement(up) && closest(up, "article, aside, main, nav, section")); };
  const native = (el) => {
    const name = tag(el);
    if (namespace(el) === "http://www.w3.org/2000/svg" && name !== "svg") return SHAPES.has(name) ? name : null;
    switch (name) {
      case "a": case "area": return hasAttr(el, "href") ? "link" : null;
      case "footer": return inSection(el) ? null : "contentinfo";
      case "header": return inSection(el) ? null : "banner";
      case "form": return labelled(el) ? "form" : null;
      case "section": return labelled(el) ? "region" : null;
      case "img": return getAttr(el, "alt") === "" && !getAttr(el, "title") && !hasAttr(el, "tabindex") ? null : "img";
      case "input": {
        const type = inputType(el);
        if (hasAttr(el, "list") && ["email", "search", "tel", "text", "url"].includes(type)) return "combobox";
        return type in INPUTS ? INPUTS[type] : "textbox";
      }
      case "select": return hasAttr(el, "multiple") || Number(getAttr(el, "size")) > 1 ? "listbox" : "combobox";
      case "td": case "th": {
        const table = closest(el, "table"), grid = table && ["grid", "treegrid"].includes(getAttr(table, "role"));
        if (name === "td") return grid ? "gridcell" : "cell";
        const scope = getAttr(el, "scope");
        if (scope === "row" || scope === "rowgroup") return "rowheader";
        if (scope === "col" || scope === "colgroup") return "columnheader";
        const row = parentNode(el), others = row && isElement(row) ? siblings(row).filter(isElement) : [];
        return others.length > 1 && others[0] === el && others.slice(1).every((cell) => is(cell, "td")) ? "rowheader" : "columnheader";
      }
      default: return Object.hasOwn(ROLES, name) ? ROLES[name] : null;
    }
  };
  const labelled = (el) => clean(getAttr(el, "aria-label") ?? "") || hasAttr(el, "aria-labelledby") || getAttr(el, "title");
  const focusable = (el) => hasAttr(el, "tabindex") || isNatively(el) || isEditable(el);
  const isNatively = (el) => ["button", "input", "select", "textarea", "summary", "iframe"].includes(tag(el)) || (["a", "area"].includes(tag(el)) && hasAttr(el, "href"));
  const roleOf = (el) => {
    const wanted = (getAttr(el, "role") ?? "").trim().split(/\s+/)[0].toLowerCase();
    if (!wanted || wanted === "generic") return native(el);
    if (wanted === "none" || wanted === "presentation") return focusable(el) || labelled(el) ? native(el) : null;
    return /^[a-z][a-z-]*$/.test(wanted) ? wanted : native(el);
  };

  // --- names
  const isHidden = (el, css) => css.display === "none" || getAttr(el, "aria-hidden") === "true" || hasAttr(el, "inert");
  const SILENT = new Set(["script", "style", "noscript", "template", "head", "meta", "link", "title"]);
  const inner = (el, depth, seen) => {
    let text = "";
    const pseudo = (which) => { const said = getComputedStyle(el, which).content.match(/^"((?:[^"\\]|\\.)*)"/); return said ? said[1].replace(/\\(.)/g, "$1") : ""; };
    text += pseudo("::before");
    for (const node of drawn(el)) {
      if (nodeType(node) === 3) { text += nodeValue(node); continue; }
      if (!isElement(node)) continue;
      if (SILENT.has(tag(node))) continue;
      const css = style(node);
      if (isHidden(node, css)) continue;
      const said = nameIn(node, depth + 1, seen, css);
      text += css.display.startsWith("inline") || css.display === "contents" ? said : ` ${said} `;
      if (tag(node) === "br") text += " ";
    }
    return text + pseudo("::after");
  };
  const nameIn = (el, depth, seen, css) => {
    if (depth > 40 || seen.has(el)) return "";
    seen.add(el);
    const label = clean(getAttr(el, "aria-label") ?? "");
    if (label) return label;
    const name = tag(el);
    if (name === "img" || name === "area") return getAttr(el, "alt") ?? getAttr(el, "title") ?? "";
    if (name === "input") return ["checkbox", "radio"].includes(inputType(el)) ? "" : inputValue(el);
    if (name === "textarea") return areaValue(el);
    if (name === "select") return chosen(el).join(" ");
    if (name === "svg") { const title = [...queryAll(el, "title")][0]; return (title ? textContent(title) : "") + inner(el, depth, seen); }
    if (css.visibility !== "visible") return siblings(el).filter(isElement).map((child) => nameIn(child, depth + 1, seen, style(child))).join(" ");
    return inner(el, depth, seen) || (getAttr(el, "title") ?? "");
  };
  const chosen = (el) => [...selectOptions(el)].filter((option) => optionSelected(option)).map((option) => clean(optionText(option)));
  const referred = (el, attribute) => {
    const root = getRoot(el), found = [];
    for (const id of (getAttr(el, attribute) ?? "").split(/\s+/).filter(Boolean)) {
      const other = nodeType(root) === 9 ? byId(root, id) : nodeType(root) === 11 ? shadowById(root, id) : null;
      if (other) found.push(other);
    }
    return found;
  };
  const LABELABLE = "button, input, meter, output, progress, select, textarea";
  const labelsOf = (el) => {
    const found = [];
    const id = getAttr(el, "id"), root = getRoot(el);
    const scope = nodeType(root) === 9 ? documentRoot(root) : null;
    if (id && scope) for (const label of labelIndex(scope).get(id) ?? []) found.push(label);
    const around = closest(el, "label");
    if (around && !found.includes(around) && labelControl(around) === el) found.push(around);
    return found;
  };
  let labels = new Map();
  const labelIndex = (scope) => {
    if (!labels.has(scope)) {
      const index = new Map();
      for (const label of queryAll(scope, "label[for]")) {
        const id = getAttr(label, "for");
        if (!index.has(id)) index.set(id, []);
        index.get(id).push(label);
      }
      labels.set(scope, index);
    }
    return labels.get(scope);
  };
  const nameOf = (el, role) => {
    const others = referred(el, "aria-labelledby");
    if (others.length) { const text = clean(others.map((other) => nameIn(other, 0, new Set(), { visibility: "visible" })).join(" ")); if (text) return text; }
    const label = clean(getAttr(el, "aria-label") ?? "");
    if (label) return label;
    const name = tag(el), type = name === "input" ? inputType(el) : "";
    if (name === "input" && ["button", "submit", "reset", "image"].includes(type)) {
      const said = type === "image" ? getAttr(el, "alt") : inputValue(el);
      if (clean(said ?? "")) return clean(said);
    }
    if (matches(el, LABELABLE)) {
      const text = clean(labelsOf(el).map((one) => nameIn(one, 0, new Set([el]), { visibility: "visible" })).join(" "));
      if (text) return text;
      if (type === "submit") return "Submit";
      if (type === "reset") return "Reset";
      if (type === "image") return clean(getAttr(el, "title") ?? "") || "Submit";
      if (type === "file") return "Choose File";
    }
    const first = { fieldset: "legend", figure: "figcaption", table: "caption" }[name];
    if (first) { const child = siblings(el).find((node) => isElement(node) && tag(node) === first); if (child) return clean(inner(child, 0, new Set())); }
    if (name === "img" || name === "area") { const alt = clean(getAttr(el, "alt") ?? ""); if (alt) return alt; }
    if (name === "svg") { const title = siblings(el).find((node) => isElement(node) && tag(node) === "title"); if (title) return clean(textContent(title)); }
    if (name === "optgroup") return clean(getAttr(el, "label") ?? "");
    if (name === "option") return clean(getAttr(el, "label") ?? "") || clean(optionText(el));
    if (SHAPES.has(role)) return clean(textContent(el));
    if (NAMED_BY_CONTENT.has(role)) { const text = clean(inner(el, 0, new Set())); if (text) return text; }
    return clean(getAttr(el, "title") ?? "") || (role === "textbox" || role === "searchbox" || role === "combobox" || role === "spinbutton" ? clean(getAttr(el, "placeholder") ?? "") : "");
  };

  // --- states and values
  const flag = (el, name) => { const said = getAttr(el, name); return said === null || said === "" || said === "undefined" ? null : said === "true" ? true : said === "false" ? false : said; };
  const isDisabled = (el) => matches(el, ":disabled") || !!closest(el, "[aria-disabled=true]");
  const statesOf = (el, role, focused) => {
    const name = tag(el), type = name === "input" ? inputType(el) : "", states = {};
    if (isDisabled(el)) states.disabled = true;
    if (type === "checkbox" || type === "radio") states.checked = type === "checkbox" && indeterminate(el) ? "mixed" : inputChecked(el);
    else if (["checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio", "treeitem"].includes(role) && flag(el, "aria-checked") !== null) states.checked = flag(el, "aria-checked");
    if (flag(el, "aria-pressed") !== null) states.pressed = flag(el, "aria-pressed");
    if (name === "option" ? optionSelected(el) : flag(el, "aria-selected") === true) states.selected = true;
    if (flag(el, "aria-expanded") !== null) states.expanded = flag(el, "aria-expanded");
    if (name === "details") states.expanded = hasAttr(el, "open");
    if (flag(el, "aria-current")) states.current = flag(el, "aria-current");
    if (matches(el, ":required") || flag(el, "aria-required") === true) states.required = true;
    if ((role === "textbox" || role === "searchbox" || role === "spinbutton") && (matches(el, ":read-only") && name !== "div" || flag(el, "aria-readonly") === true) && !isDisabled(el) && !isEditable(el)) states.readonly = true;
    if (flag(el, "aria-invalid")) states.invalid = true;
    if (el === focused) states.focused = true;
    if (role === "heading") states.level = Number(getAttr(el, "aria-level")) || Number(name.slice(1)) || 2;
    if (role === "link" && getAttr(el, "href") !== null) states.url = getAttr(el, "href").slice(0, 500);
    if (type && role === "textbox" && type !== "text") states.type = type;
    if (["textbox", "searchbox", "combobox", "spinbutton"].includes(role) && getAttr(el, "placeholder")) states.placeholder = clean(getAttr(el, "placeholder"));
    if (SHAPES.has(role)) for (const key of ["fill", "stroke", "r", "x", "y", "cx", "cy", "width", "height"]) if (hasAttr(el, key)) states[key] = getAttr(el, key).slice(0, 40);
    return states;
  };
  const valueOf = (el, role) => {
    const name = tag(el);
    if (name === "textarea") return areaValue(el);
    if (name === "select") return chosen(el).join(", ");
    if (name === "input" && !["checkbox", "radio", "button", "submit", "reset", "image", "file"].includes(inputType(el))) return inputType(el) === "password" ? "•".repeat(inputValue(el).length) : inputValue(el);
    if (name === "progress" || name === "meter") return getAttr(el, "value") ?? "";
    if (role === "textbox" && isEditable(el)) return clean(textContent(el));
    return getAttr(el, "aria-valuetext") ?? (["slider", "spinbutton", "progressbar", "scrollbar", "meter"].includes(role) ? getAttr(el, "aria-valuenow") : null);
  };

  // --- references
  const numbers = new WeakMap(), living = new Map();
  let nextNumber = 1;
  const numberOf = (el) => {
    let number = numbers.get(el);
    if (!number) { number = nextNumber++; numbers.set(el, number); living.set(number, new WeakRef(el)); }
    return number;
  };
  const lookUp = (ref) => {
    const number = /^e([1-9]\d*)$/.exec(ref);
    const el = number && living.get(Number(number[1]))?.deref();
    return el && connected(el) && attached(el) ? el : null;
  };
  const attached = (el) => { // in this document or in one of its frames
    for (let node = el, steps = 0; steps < 10_000; steps++) { const up = above(node); if (!up) return node === documentRoot(document); node = up; }
    return false;
  };

  // --- geometry: everything in coordinates of the top window's viewport
  const offset = (el) => {
    let x = 0, y = 0, view = defaultView(ownerDocument(el));
    while (view && view !== window && view.frameElement) {
      const frame = view.frameElement, box = rectOf(frame);
      x += box.left + clientLeft(frame); y += box.top + clientTop(frame);
      view = defaultView(ownerDocument(frame));
    }
    return [x, y];
  };
  const boxOf = (el, [dx, dy]) => { const box = rectOf(el); return { x: box.left + dx, y: box.top + dy, width: box.width, height: box.height }; };
  const hitAt = (x, y) => {
    let el = pointed(document, x, y);
    for (let steps = 0; el && steps < 50; steps++) {
      let deeper = null;
      const root = shadowRoot(el);
      if (root) deeper = shadowPointed(root, x, y);
      else if (is(el, "iframe")) {
        const doc = insideOf(el);
        if (doc) { const [dx, dy] = offset(el), box = rectOf(el); deeper = pointed(doc, x - dx - box.left - clientLeft(el), y - dy - box.top - clientTop(el)); }
        if (deeper) { const [dx, dy] = offset(deeper); const inShadow = shadowRoot(deeper); if (inShadow) deeper = shadowPointed(inShadow, x - dx, y - dy) ?? deeper; return deeper; }
      }
      if (!deeper || deeper === el) return el;
      el = deeper;
    }
    return el;
  };
  const takesClick = (el, hit) => {
    if (within(el, hit)) return true;
    for (let node = hit; node; node = above(node)) if (is(node, "label")) return labelControl(node) === el;
    return false;
  };
  const describe = (el) => {
    for (let node = el; node; node = above(node)) {
      const role = roleOf(node), name = role ? nameOf(node, role).slice(0, 60) : "";
      if (role && role !== "document" || numbers.has(node)) return (numbers.has(node) ? `e${numbers.get(node)} ` : "") + (role ?? tag(node)) + (name ? ` "${name}"` : "");
    }
    return el ? tag(el) : "nothing";
  };
  // Points where a click should land, best first: the middle of what is visible of each rectangle.
  const points = (el, [dx, dy]) => {
    const found = [];
    for (const box of [...rectsOf(el)].slice(0, 8)) {
      const left = Math.max(0, box.left + dx), top = Math.max(0, box.top + dy);
      const right = Math.min(innerWidth, box.right + dx), bottom = Math.min(innerHeight, box.bottom + dy);
      if (right - left >= 1 && bottom - top >= 1) found.push([(left + right) / 2, (top + bottom) / 2]);
    }
    return found;
  };

  // --- one look at the page
  const observe = (start, limits) => {
    nextNumber = Math.max(nextNumber, start);
    labels = new Map();
    let elements = 0, nodes = 0, truncated = false, focusedRef = "";
    let focused = activeElement(document);
    for (let steps = 0; focused && steps < 50; steps++) {
      const root = shadowRoot(focused), doc = is(focused, "iframe") ? insideOf(focused) : null;
      const deeper = root ? root.activeElement : doc ? activeElement(doc) : null;
      if (!deeper) break;
      focused = deeper;
    }
    const walk = (list, out, shift, cursor, hiddenAbove, depth) => {
      for (const node of list) {
        if (++nodes > limits.nodes || depth > 400) { truncated = true; return; }
        const type = nodeType(node);
        if (type === 3) {
          const text = hiddenAbove ? "" : clean(nodeValue(node).slice(0, 20_000));
          if (text) { if (typeof out.at(-1) === "string") out.push(`${out.pop()} ${text}`); else out.push(text); }
          continue;
        }
        if (type !== 1 || SILENT.has(tag(node))) continue;
        const isOption = is(node, "option") || is(node, "optgroup"), css = style(node);
        if (!isOption && isHidden(node, css)) continue;
        const hidden = css.visibility !== "visible", role = roleOf(node), children = [];
        const direct = !hidden && siblings(node).some((child) => nodeType(child) === 3 && clean(nodeValue(child).slice(0, 2_000)));
        const pointer = css.cursor === "pointer" && cursor !== "pointer";
        const interactive = !hidden && (WIDGETS.has(role) || focusable(node) || pointer || hasAttr(node, "onclick") || getAttr(node, "draggable") === "true");
        const included = !hidden && node !== documentBody(ownerDocument(node)) && ((role && role !== "document") || interactive || direct);
        if (included && elements >= limits.elements) { truncated = true; return; }
        let mine = null;
        if (included) { elements++; mine = { r: `e${numberOf(node)}`, o: role ?? "generic", k: children }; out.push(mine); }
        if (included && node === focused) focusedRef = mine.r;
        const leaf = ["input", "textarea", "img", "canvas", "progress", "meter"].includes(tag(node)) || role === "option";
        if (!leaf) walk(drawn(node), included ? children : out, is(node, "iframe") ? null : shift, css.cursor, hidden, depth + 1);
        if (!included) continue;
        const name = nameOf(node, role), at = shift ?? offset(node), box = boxOf(node, at);
        mine.n = name.slice(0, 1_000);
        mine.s = statesOf(node, role, focused);
        const value = valueOf(node, role);
        if (value !== null && value !== undefined) mine.v = value.slice(0, 5_000);
        mine.b = [Math.round(box.x), Math.round(box.y), Math.round(box.width), Math.round(box.height)];
        mine.i = interactive;
        const places = points(node, at);
        mine.w = places.length > 0;
        if (places.length) {
          const hit = hitAt(...places[0]);
          if (!(hit && takesClick(node, hit)) && !places.slice(1).some((place) => { const other = hitAt(...place); return other && takesClick(node, other); })) mine.c = hit ? describe(hit) : "nothing";
        }
        if (children.every((child) => typeof child === "string") && children.join(" ") === name || mine.v !== undefined && role === "textbox") children.length = 0;
      }
    };
    const tree = [], body = documentBody(document), root = documentRoot(document);
    if (body) walk([body], tree, body ? null : [0, 0], "", false, 0);
    const dom = domOf(limits);
    return {
      url: documentURL(document), title: clean(documentTitle(document)), ready: readyState(document), tree, dom: dom.text,
      scroll: [Math.round(scrollX), Math.round(scrollY)], viewport: [innerWidth, innerHeight],
      size: root ? [root.scrollWidth, root.scrollHeight].map(Number) : [0, 0],
      focused: focusedRef, truncated: truncated || dom.truncated, next: nextNumber,
    };
  };

  // --- the document as text
  const IDS = new Set(["id", "for", "nonce", "integrity", "aria-labelledby", "aria-controls", "aria-owns", "aria-describedby", "aria-activedescendant", "data-reactid", "data-reactroot"]);
  const domOf = (limits) => {
    const out = [];
    let chars = 0, nodes = 0, truncated = false;
    const say = (text) => { chars += text.length; out.push(text); };
    const walk = (node, depth) => {
      if (++nodes > limits.nodes * 2 || chars > limits.chars || depth > 400) { truncated = true; return; }
      if (nodeType(node) === 3) { const text = clean(nodeValue(node).slice(0, limits.chars)); if (text) say(text); return; }
      if (!isElement(node)) return;
      const name = tag(node);
      if (SILENT.has(name)) return;
      const said = [];
      for (const attribute of attributes(node)) if (!IDS.has(attribute.name) && !/^on/.test(attribute.name)) said.push(`${attribute.name}=${JSON.stringify(attribute.value.slice(0, 2_000))}`);
      said.sort();
      if (name === "input") said.push(["checkbox", "radio"].includes(inputType(node)) ? `:checked=${inputChecked(node)}` : `:value=${JSON.stringify(inputValue(node))}`);
      if (name === "textarea") said.push(`:value=${JSON.stringify(areaValue(node))}`);
      if (name === "option") said.push(`:selected=${optionSelected(node)}`);
      say(`<${[name, ...said].join(" ")}>`);
      for (const child of drawn(node)) walk(child, depth + 1);
      say(`</${name}>`);
    };
    const body = documentBody(document);
    if (body) walk(body, 0);
    return { text: out.join("\n").slice(0, limits.chars), truncated };
  };

  // --- finding an element for an action
  const locate = (ref, usable) => {
    const el = lookUp(ref);
    if (!el) return { problem: "gone" };
    const role = roleOf(el), what = describe(el), info = { what, role: role ?? "generic", tag: tag(el) };
    const css = style(el);
    if (css.visibility !== "visible" || ![...rectsOf(el)].some((box) => box.width > 0 && box.height > 0)) return { ...info, problem: "hidden" };
    if (usable && isDisabled(el)) return { ...info, problem: "disabled" };
    let shift = offset(el), places = points(el, shift);
    if (!places.length || !places.some((place) => { const hit = hitAt(...place); return hit && takesClick(el, hit); })) {
      scrollIntoView(el, { block: "center", inline: "center", behavior: "instant" });
      shift = offset(el); places = points(el, shift);
    }
    if (!places.length) return { ...info, problem: "outside" };
    for (const [x, y] of places) { const hit = hitAt(x, y); if (hit && takesClick(el, hit)) return { ...info, x, y }; }
    const hit = hitAt(...places[0]);
    return { ...info, problem: "covered", by: hit ? describe(hit) : "nothing" };
  };
  const send = (el, ...kinds) => { for (const kind of kinds) el.dispatchEvent(new Event(kind, { bubbles: true, composed: true })); };
  const setter = (proto, name) => Function.prototype.call.bind(Object.getOwnPropertyDescriptor(proto, name).set);
  const setInput = setter(HTMLInputElement.prototype, "value"), setSelected = setter(HTMLOptionElement.prototype, "selected");
  const focus = method(HTMLElement.prototype, "focus"), select = method(HTMLInputElement.prototype, "select"), selectArea = method(HTMLTextAreaElement.prototype, "select");
  const PICKED = ["color", "date", "time", "datetime-local", "month", "range", "week"];
  const prepareFill = (ref, text) => {
    let el = lookUp(ref);
    if (!el) return { problem: "gone" };
    if (is(el, "label") && labelControl(el)) el = labelControl(el);
    const what = describe(el), type = is(el, "input") ? inputType(el) : "";
    const isText = is(el, "textarea") || (type && !["checkbox", "radio", "button", "submit", "reset", "image", "file", "hidden"].includes(type));
    if (!isText && !isEditable(el)) return { what, problem: "not a text field" };
    if (isDisabled(el)) return { what, problem: "disabled" };
    if (isText && (hasAttr(el, "readonly") || flag(el, "aria-readonly") === true)) return { what, problem: "read only" };
    scrollIntoView(el, { block: "nearest", inline: "nearest", behavior: "instant" });
    focus(el);
    if (PICKED.includes(type)) {
      const before = inputValue(el);
      setInput(el, text);
      const after = inputValue(el);
      if (after !== text && !(type === "color" && after === text.toLowerCase()) && !(type === "range" && Number(after) === Number(text))) { setInput(el, before); return { what, problem: "malformed", type }; }
      send(el, "input", "change");
      return { what, done: true };
    }
    if (type === "number" && text !== "" && !Number.isFinite(Number(text))) return { what, problem: "malformed", type };
    if (is(el, "textarea")) selectArea(el);
    else if (type) select(el);
    else defaultView(ownerDocument(el)).getSelection().selectAllChildren(el);
    return { what, done: false };
  };
  const choose = (ref, wanted) => {
    const el = lookUp(ref);
    if (!el) return { problem: "gone" };
    const what = describe(el);
    if (!is(el, "select")) return { what, problem: "not a list of options" };
    if (isDisabled(el)) return { what, problem: "disabled" };
    const options = [...selectOptions(el)];
    const texts = options.map((option) => clean(optionText(option)));
    const picks = wanted.map((text) => { const spoken = clean(text); let at = texts.indexOf(spoken); if (at < 0) at = options.findIndex((option) => optionValue(option) === text); if (at < 0) at = texts.findIndex((other) => other.toLowerCase() === spoken.toLowerCase()); return at; });
    if (picks.includes(-1)) return { what, problem: "no such option", wanted: wanted[picks.indexOf(-1)], options: texts.slice(0, 40) };
    if (picks.some((at) => matches(options[at], ":disabled"))) return { what, problem: "option disabled", wanted: texts[picks.find((at) => matches(options[at], ":disabled"))] };
    if (picks.length !== 1 && !isMultiple(el)) return { what, problem: "one option only" };
    scrollIntoView(el, { block: "nearest", inline: "nearest", behavior: "instant" });
    focus(el);
    options.forEach((option, at) => { if (isMultiple(el) || picks.includes(at)) setSelected(option, picks.includes(at)); });
    send(el, "input", "change");
    return { what, done: true };
  };

  // The references of the element at a place (see listening.js), and of those around it that have one, nearest first.
  const refsAt = (path) => {
    let node = document;
    for (const hop of path) {
      if (node !== document) node = shadowRoot(node) ?? (is(node, "iframe") ? insideOf(node) : null);
      for (const number of hop) node = node && siblings(node).filter(isElement)[number];
      if (!node) return [];
    }
    const found = [];
    for (; node; node = above(node)) if (numbers.has(node)) found.push(`e${numbers.get(node)}`);
    return found;
  };

  // --- time: see steady.js
  const turn = () => new Promise((resolve) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = () => { port1.close(); resolve(); }; port2.postMessage(0); });
  const frames = (view, found = []) => { found.push(view); for (let i = 0; i < view.length && found.length < 50; i++) try { if (view[i].document) frames(view[i], found); } catch { /* another origin */ } return found; };
  const tell = (view, channel, detail) => view.dispatchEvent(new CustomEvent(channel, { cancelable: true, detail }));
  const advance = async (channel, until) => {
    for (const view of frames(window)) {
      for (let fired = 0; fired < 10_000; fired++) { if (tell(view, channel, `to:${until}`)) break; await turn(); }
    }
    await turn();
    return true;
  };
  // One turn of the page's own queue and one frame, so that what an action set in motion has been announced.
  const settle = async () => {
    const timeout = new Promise((resolve) => setTimeout(resolve, 0));
    await timeout;
    if (document.visibilityState === "visible") await Promise.race([new Promise((resolve) => requestAnimationFrame(resolve)), new Promise((resolve) => setTimeout(resolve, 100))]);
    await turn();
    return readyState(document);
  };
  const whatIsAt = (x, y) => { const hit = hitAt(x, y); return hit ? describe(hit) : "nothing"; };
  const storage = async () => {
    const found = { origin: location.origin, local: {}, session: {}, name: window.name, databases: [], caches: [] };
    try { found.local = { ...localStorage }; found.session = { ...sessionStorage }; } catch { /* a blank or sandboxed document has none */ }
    try { found.databases = (await indexedDB.databases()).map((database) => database.name); } catch { /* likewise */ }
    try { found.caches = await caches.keys(); } catch { /* only with https */ }
    return found;
  };
  const mark = async (png, marks) => {
    const bytes = Uint8Array.from(atob(png), (char) => char.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), pen = canvas.getContext("2d");
    pen.drawImage(bitmap, 0, 0);
    pen.font = "bold 11px sans-serif";
    pen.textBaseline = "top";
    const colours = ["#d81b60", "#1e5bd8", "#00796b", "#b25600", "#6a1b9a"];
    marks.forEach(([ref, x, y, width, height], at) => {
      pen.strokeStyle = pen.fillStyle = colours[at % colours.length];
      pen.lineWidth = 2;
      pen.strokeRect(x, y, width, height);
      const wide = pen.measureText(ref).width + 4;
      pen.fillRect(x, Math.max(0, y - 13), wide, 13);
      pen.fillStyle = "#fff";
      pen.fillText(ref, x + 2, Math.max(0, y - 13) + 1);
    });
    const blob = await canvas.convertToBlob({ type: "image/png" });
    const out = new Uint8Array(await blob.arrayBuffer());
    let text = "";
    for (let i = 0; i < out.length; i += 32_768) text += String.fromCharCode(...out.subarray(i, i + 32_768));
    return btoa(text);
  };
  globalThis.turngate = { observe, locate, prepareFill, choose, advance, settle, whatIsAt, refsAt, storage, mark, describe: (ref) => { const el = lookUp(ref); return el ? describe(el) : null; } };
})();
