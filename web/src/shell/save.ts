// Owns how the page gives a person a file.

/** Saves text as a file. */
export function saveAs(name: string, type: string, text: string): void {
  saveBlob(name, new Blob([text], { type }));
}

/** Saves what was gathered as a file. */
export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
