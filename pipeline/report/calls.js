"use strict";
// The table of calls: search, filters and order. Without this script it is a plain table.
(() => {
  const form = document.getElementById("find");
  const body = document.querySelector("#table tbody");
  if (!form || !body) return;
  const entries = Array.from(body.rows, (row, order) => ({
    row,
    order,
    text: row.textContent.toLowerCase(),
    gain: Number(row.dataset.gain),
    tool: row.dataset.tool,
    kept: row.dataset.kept,
  }));

  const PAGE = 20;
  const more = document.getElementById("more");
  let limit = PAGE;

  const show = () => {
    const words = form.words.value.toLowerCase().split(/\s+/);
    let found = 0;
    for (const entry of entries) {
      const matches =
        (!form.tool.value || entry.tool === form.tool.value) &&
        (!form.kept.value || entry.kept === form.kept.value) &&
        words.every((word) => entry.text.includes(word));
      found += matches;
      entry.row.hidden = !matches || found > limit;
    }
    document.getElementById("shown").textContent = `${found} of ${entries.length} calls`;
    more.hidden = found <= limit;
    more.textContent = `${Math.min(found - limit, PAGE * 2)} more`;
  };

  const showFromTop = () => {
    limit = PAGE;
    show();
  };

  const sort = (button) => {
    const heading = button.closest("th");
    const key = button.dataset.key;
    // Gains begin with the highest, names with A; another click turns the order round.
    const first = key === "gain" ? "descending" : "ascending";
    const other = key === "gain" ? "ascending" : "descending";
    const direction = heading.getAttribute("aria-sort") === first ? other : first;
    for (const each of heading.parentElement.cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    entries.sort((a, b) => {
      const before = a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0;
      return sign * before || a.order - b.order;
    });
    body.append(...entries.map((entry) => entry.row));
    showFromTop();
  };

  more.addEventListener("click", () => {
    limit += PAGE * 2;
    show();
  });
  form.addEventListener("input", showFromTop);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(showFromTop));
  for (const heading of document.querySelectorAll("#table th[data-key]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.key = heading.dataset.key;
    button.textContent = heading.textContent;
    button.addEventListener("click", () => sort(button));
    heading.replaceChildren(button);
  }
  for (const link of document.querySelectorAll("a[data-tool]")) {
    link.addEventListener("click", () => {
      form.reset();
      form.tool.value = link.dataset.tool;
      setTimeout(showFromTop);
    });
  }
  form.hidden = false;
  show();
})();
