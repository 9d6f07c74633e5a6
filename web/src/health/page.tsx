// Owns the page "Health".

/** The page. */
export default function HealthPage() {
  return <div class="page"><h1>Health</h1></div>;
}
