// Owns how an image becomes part of a message: only kinds that the model reads, shrunk where it is too large to send.
import { newUuid } from 'trunkline-client';
import type { Picture } from './content';

/** The kinds that may be sent. */
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** A larger image is shrunk. */
export const MOST_BYTES = 3_500_000;

/** The size that an image of `bytes` should get, as a part of each side, so that it fits. */
export const sideFor = (bytes: number): number => Math.min(0.9, Math.sqrt(MOST_BYTES / bytes));

/** Reads an image. Throws a sentence for people where it cannot be sent. */
export async function readPicture(file: File): Promise<Picture> {
  if (!PICTURE_TYPES.includes(file.type)) throw new Error(`${file.name || 'This file'} is no PNG, JPEG, GIF or WebP image.`);
  const fit = file.size > MOST_BYTES ? await shrink(file) : file;
  const picture: Picture = { id: newUuid(), name: file.name || 'image', mediaType: fit.type, data: await base64(fit), bytes: fit.size };
  return fit === file ? picture : { ...picture, bytesBefore: file.size };
}

async function shrink(file: File): Promise<Blob> {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name || 'This image'} cannot be read.`);
  }
  try {
    let side = sideFor(file.size);
    for (let attempt = 0; attempt < 6; attempt += 1) {
      const canvas = document.createElement('canvas');
      canvas.width = Math.max(1, Math.round(bitmap.width * side));
      canvas.height = Math.max(1, Math.round(bitmap.height * side));
      canvas.getContext('2d')?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/webp', 0.85));
      if (blob !== null && blob.size <= MOST_BYTES && PICTURE_TYPES.includes(blob.type)) return blob;
      side *= 0.7;
    }
  } finally {
    bitmap.close();
  }
  throw new Error(`${file.name || 'This image'} is too large to send.`);
}

function base64(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ''));
    reader.onerror = () => reject(new Error('This image cannot be read.'));
    reader.readAsDataURL(blob);
  });
}

/** The image as an address that the page may show. */
export const addressOf = (picture: Picture): string => `data:${picture.mediaType};base64,${picture.data}`;
