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

  const show = () => {
    const words = form.words.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const entry of entries) {
      const visible =
        (!form.tool.value || entry.tool === form.tool.value) &&
        (!form.kept.value || entry.kept === form.kept.value) &&
        words.every((word) => entry.text.includes(word));
      entry.row.hidden = !visible;
      shown += visible;
    }
    document.getElementById("shown").textContent = `${shown} of ${entries.length} calls`;
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
    const sorted = [...entries].sort((a, b) => {
      const before = a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0;
      return sign * before || a.order - b.order;
    });
    body.append(...sorted.map((entry) => entry.row));
  };

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(show));
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
      setTimeout(show);
    });
  }
  form.hidden = false;
  show();
})();
