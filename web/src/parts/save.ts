// Owns how the page gives a person a file.

/** Saves text as a file. */
export function saveAs(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  save(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Has the browser save what the daemon sends, under the name that it says. */
export const saveFrom = (address: string): void => save(address, '');

function save(address: string, name: string): void {
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
}
