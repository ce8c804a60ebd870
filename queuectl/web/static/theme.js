// Dark or light: as in the system's settings, or as the user chose here.

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
