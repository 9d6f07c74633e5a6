import { expect, test } from 'vitest';
import { browserName } from '../src/daemon/login';

test('a browser is named as people know it', () => {
  expect(browserName('Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36')).toBe('Chrome on Linux');
  expect(browserName('Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Mobile/15E148 Safari/604.1')).toBe('Safari on iPhone');
  expect(browserName('Mozilla/5.0 (Macintosh; Intel Mac OS X 14.0; rv:150.0) Gecko/20100101 Firefox/150.0')).toBe('Firefox on macOS');
  expect(browserName('curl/8')).toBe('A browser on a system without a name');
});
