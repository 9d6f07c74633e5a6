// Owns the page "Settings".

/** The page. */
export default function SettingsPage() {
  return <div class="page"><h1>Settings</h1></div>;
}
