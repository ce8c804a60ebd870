// Dark or light: as the system has it, or as was chosen here.

const KEY = "queuectl-theme";
const NEXT = { system: "light", light: "dark", dark: "system" };

export const theme = () => localStorage.getItem(KEY) ?? "system";

export function applyTheme() {
  if (theme() === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = theme();
}

export function turnTheme() {
  localStorage.setItem(KEY, NEXT[theme()]);
  applyTheme();
}
