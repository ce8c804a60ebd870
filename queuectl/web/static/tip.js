// A small label beside the element that has the pointer or the focus: the text of its `data-tip`.

const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("aria-hidden", "true"); // the element's own label has the same text
tip.hidden = true;

export function beginTips() {
  document.body.append(tip);
  document.addEventListener("pointerover", (event) => follow(event.target));
  document.addEventListener("focusin", (event) => follow(event.target));
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
}

function follow(target) {
  const element = target.closest?.("[data-tip]");
  if (!element) return hide();
  tip.textContent = element.dataset.tip;
  tip.hidden = false;
  const box = element.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left), innerWidth - tip.offsetWidth - 8);
  const isRoomAbove = box.top > tip.offsetHeight + 12;
  tip.style.left = `${left}px`;
  tip.style.top = `${isRoomAbove ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`;
}

function hide() {
  tip.hidden = true;
}
