// What is drawn of a slide. Runs in a world of its own beside the page, whose scripts do not run at all. A highlight hides
// all text without touching the document, so no rule of the page can answer to it: what differs between the image with
// text and the image without is what a reader sees of the text.
(() => {
  const ALLOWED = new Set(("html head meta title style body div span p h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table caption " +
    "colgroup col thead tbody tfoot tr th td strong em b i u s small sub sup mark code pre br hr wbr header footer main " +
    "section article aside nav figure figcaption blockquote time").split(" "));
  const MOST_WORDS = 600, SEEN = 12;
  const find = (selector) => [...Document.prototype.querySelectorAll.call(document, selector)];
  const isForeign = (el) => !ALLOWED.has(el.localName) || (el.localName === "meta" && el.hasAttribute("http-equiv"));
  const round = (value) => Math.round(value * 100) / 100;
  const boxes = (range) => [...range.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
  const blockOf = (el) => {
    while (el.parentElement && /^(inline|contents)/.test(getComputedStyle(el).display)) el = el.parentElement;
    return el;
  };
  // Effects under which the letters of a text, or their order, are not those of the document, or cannot be measured.
  const isOdd = (el) => {
    const css = getComputedStyle(el), size = parseFloat(css.fontSize);
    const shift = css.transform === "none" || /^matrix\(1, 0, 0, 1,/.test(css.transform);
    return !shift || css.rotate !== "none" || css.scale !== "none" || css.webkitTextSecurity !== "none" ||
      css.direction !== "ltr" || css.unicodeBidi.includes("override") || css.writingMode !== "horizontal-tb" ||
      parseFloat(css.letterSpacing) < -0.1 * size || css.perspective !== "none";
  };
  const texts = () => {
    const foreign = find("*").filter(isForeign).map((el) => el.localName);
    if (foreign.length) return { foreign };
    const root = document.documentElement, odd = new Map(), blocks = new Map(), words = [], range = new Range();
    const oddAt = (el) => {
      if (!el) return false;
      if (!odd.has(el)) odd.set(el, isOdd(el) || oddAt(el.parentElement));
      return odd.get(el);
    };
    const cells = new Map();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && words.length < MOST_WORDS; node = walker.nextNode()) {
      const el = node.parentElement;
      if (el.localName === "style") continue;
      const block = blockOf(el), size = parseFloat(getComputedStyle(el).fontSize), cell = el.closest("td, th");
      if (!blocks.has(block)) blocks.set(block, blocks.size);
      for (const found of node.data.matchAll(/\S+/g)) {
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        const rects = boxes(range);
        if (cell) cells.set(cell, [...(cells.get(cell) ?? []), words.length]);
        words.push({
          text: found[0], block: blocks.get(block), odd: oddAt(el),
          size: round(Math.min(size, ...rects.map((box) => box.height))),
          rects: rects.map((box) => [box.x, box.y, box.width, box.height].map(round)),
        });
      }
    }
    let outgrown = Math.max(0, root.scrollWidth - innerWidth, root.scrollHeight - innerHeight);
    for (const el of document.body.querySelectorAll("*")) {
      const css = getComputedStyle(el);
      if (/^(inline$|contents|none|table-(row|column|header|footer))/.test(css.display) || !el.clientWidth) continue;
      const beyond = Math.max(el.scrollWidth - el.clientWidth, el.scrollHeight - el.clientHeight);
      if (beyond > 0.35 * parseFloat(css.fontSize)) outgrown = Math.max(outgrown, beyond); // letters overhang their line
    }
    const tables = find("table").map((table) => [...table.rows].map((row) => [...row.cells].map((cell) => cells.get(cell) ?? [])));
    return {
      foreign, words, outgrown, tables, size: [innerWidth, innerHeight], cut: words.length >= MOST_WORDS,
      moving: document.getAnimations().length,
    };
  };
  let sheet = null;
  const hide = (name) => {
    const range = new Range(), clear = "transparent";
    range.selectNodeContents(document.body);
    sheet = new CSSStyleSheet();
    sheet.replaceSync(`::highlight(${name}){color:${clear};-webkit-text-fill-color:${clear};-webkit-text-stroke-color:${clear};` +
      `text-shadow:none;text-decoration:none;background-color:${clear}}`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    CSS.highlights.set(name, new Highlight(range));
  };
  const show = (name) => {
    CSS.highlights.delete(name);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
  };
  const pixels = async (png) => {
    const bytes = Uint8Array.from(atob(png), (char) => char.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const pen = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    pen.drawImage(bitmap, 0, 0);
    return pen.getImageData(0, 0, bitmap.width, bitmap.height);
  };
  const linear = Array.from({ length: 256 }, (_, c) => (c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const light = (data, at) => 0.2126 * linear[data[at]] + 0.7152 * linear[data[at + 1]] + 0.0722 * linear[data[at + 2]];
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  // Of each word: the share of its pixels that it colours, its contrast (WCAG) and its colour, both where it is strongest.
  const compare = async (shown, hidden, words) => {
    const one = await pixels(shown), other = await pixels(hidden), a = one.data, b = other.data;
    const seen = words.map((rects) => {
      const differing = [];
      let area = 0;
      for (const [x, y, width, height] of rects) {
        const right = Math.min(one.width, Math.ceil(x + width)), low = Math.min(one.height, Math.ceil(y + height));
        area += width * height;
        for (let v = Math.max(0, Math.floor(y)); v < low; v++) for (let u = Math.max(0, Math.floor(x)); u < right; u++) {
          const at = 4 * (v * one.width + u);
          const far = Math.max(Math.abs(a[at] - b[at]), Math.abs(a[at + 1] - b[at + 1]), Math.abs(a[at + 2] - b[at + 2]));
          if (far > SEEN) differing.push([ratio(light(a, at), light(b, at)), far, at]);
        }
      }
      if (!differing.length) return { ink: 0, contrast: 1, colour: null };
      const ratios = differing.map(([value]) => value).sort((p, q) => p - q);
      const [, , strongest] = differing.reduce((best, next) => (next[1] > best[1] ? next : best));
      return {
        ink: differing.length / area, contrast: ratios[Math.floor(0.98 * (ratios.length - 1))],
        colour: [...a.slice(strongest, strongest + 3)],
      };
    });
    const counts = new Map();
    for (let at = 0; at < b.length; at += 4) { const key = (b[at] << 16) | (b[at + 1] << 8) | b[at + 2]; counts.set(key, (counts.get(key) ?? 0) + 1); }
    const [ground] = [...counts].reduce((best, next) => (next[1] > best[1] ? next : best));
    return { seen, ground: [ground >> 16, (ground >> 8) & 255, ground & 255] };
  };
  globalThis.turngateSlide = { texts, hide, show, compare };
})()
