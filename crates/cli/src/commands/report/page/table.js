
// Tables for many rows: paged, sorted by any column, filtered by search words. Rows are indexes.

// Compares texts in natural order: numbers inside a text compare by value.
const inOrder = new Intl.Collator("en", { numeric: true }).compare;

// columns: { name, value(row), show(row)?, isNumber }. `words(row)` returns the text that is searched.
function table({ caption, columns, rows, words, by, page = 50, rowHeader = 0 }) {
  let sorted = { at: by ? by.at : 0, falls: by ? by.falls : false };
  let from = 0, shown = rows, sought = "";
  const body = el("tbody");
  const heads = columns.map((column, at) =>
    el("th", { scope: "col", class: column.isNumber ? "n" : null },
      el("button", { type: "button", class: "sort", click: () => sortBy(at) }, column.name)));
  const told = el("span", { class: "dim" });
  const back = el("button", { type: "button", click: () => turn(-page) }, "Previous");
  const on = el("button", { type: "button", click: () => turn(page) }, "Next");
  const pager = el("div", { class: "pager", role: "group", "aria-label": "Pages of: " + caption }, back, on, told);
  const whole = el("table", { class: "list" }, el("caption", null, caption),
    el("thead", null, el("tr", null, heads)), body);
  const root = el("div", null, el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, whole), pager);

  function sortBy(at) {
    sorted = { at, falls: sorted.at === at ? !sorted.falls : Boolean(columns[at].isNumber) };
    from = 0;
    draw();
    announce(caption + " sorted by " + columns[at].name + (sorted.falls ? ", descending" : ", ascending"));
  }

  function turn(by) {
    from = Math.max(0, Math.min(from + by, shown.length - 1));
    draw();
    announce(told.textContent);
  }

  function draw() {
    const column = columns[sorted.at];
    const keys = new Map(shown.map((row) => [row, column.value(row)]));
    const compare = column.isNumber ? (a, b) => a - b : inOrder;
    const list = [...shown].sort((a, b) => (sorted.falls ? -1 : 1) * compare(keys.get(a), keys.get(b)) || a - b);
    heads.forEach((head, at) => {
      if (at === sorted.at) head.setAttribute("aria-sort", sorted.falls ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...list.slice(from, from + page).map((row) => el("tr", null, columns.map((column, at) => {
      const cell = column.show ? column.show(row) : column.value(row);
      return at === rowHeader ? el("th", { scope: "row" }, cell) : el("td", { class: column.isNumber ? "n" : null }, cell);
    }))));
    const to = Math.min(from + page, list.length);
    told.textContent = list.length === 0 ? "no rows" :
      (from + 1).toLocaleString("en") + " to " + to.toLocaleString("en") + " of " + list.length.toLocaleString("en") +
      (shown.length < rows.length ? " (" + rows.length.toLocaleString("en") + "  in total)" : "");
    [back.disabled, on.disabled] = [from === 0, to >= list.length];
    pager.hidden = list.length <= page && shown.length === rows.length;
  }

  // Shows the rows that contain all words of the text.
  function seek(text) {
    sought = text;
    const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
    shown = parts.length === 0 ? rows : rows.filter((row) => {
      const all = words(row).toLowerCase();
      return parts.every((part) => all.includes(part));
    });
    from = 0;
    draw();
    announce(count(shown.length, "row") + " of " + caption);
  }

  function replace(all) {
    rows = all;
    if (sought) seek(sought);
    else [shown, from] = [rows, 0];
    draw();
  }

  draw();
  return { root, seek, replace };
}

// A search field that filters a list while the user types.
function search(label, seek) {
  let waiting = 0;
  const field = el("input", { type: "search", autocomplete: "off", spellcheck: "false", input: () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => seek(field.value), 120);
  } });
  return { field, root: el("label", null, label, field) };
}
