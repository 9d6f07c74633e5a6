// Owns the page "New session".

/** The page. */
export default function NewSession() {
  return <div class="page"><h1>New session</h1></div>;
}
