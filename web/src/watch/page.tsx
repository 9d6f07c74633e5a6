// Owns the page "Watch".

/** The page. */
export default function WatchPage() {
  return <div class="page"><h1>Watch</h1></div>;
}
