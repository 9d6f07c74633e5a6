// Owns the page of one conversation.
import { useParams } from '@solidjs/router';

/** One conversation. */
export function ConversationPage() {
  const params = useParams();
  return <div class="page"><h1>{params.id}</h1></div>;
}
