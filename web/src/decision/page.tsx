// Owns the page "Needs you".

/** The page. */
export default function NeedsPage() {
  return <div class="page"><h1>Needs you</h1></div>;
}
