// Owns the page "Usage".

/** The page. */
export default function UsagePage() {
  return <div class="page"><h1>Usage</h1></div>;
}
