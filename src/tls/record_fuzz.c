// SPDX-License-Identifier: Apache-2.0
// Fuzzes what an authenticated client may send: the input is a list of inner plaintexts (length
// u16, type, bytes), each sealed with the right keys and then opened; and one record that is not
// sealed.
#include "tls/cipher.h"
#include "tls/tls_test_support.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static u8 memory[1 << 15] ALIGNED(64);
  static u8 buf[TLS_RECORD_MAX];
  test_start();
  struct tls_cipher_cache *cache = tls_cipher_cache_init(span_of(memory, sizeof memory), 8);
  struct tls_record client = {.cipher_suite = (u16)(0x1301 + (len > 0 ? data[0] % 3 : 0))};
  tls_record_start(&client);
  struct tls_record server = client;
  struct reader r = reader_init(bytes_of(data, len));
  read_u8(&r);
  enum tls_open got = TLS_OPEN_NOTHING;
  while (reader_left(&r) > 3 && got <= TLS_OPEN_KEY_UPDATE_REPLY) {
    u32 content_len = MIN(read_be16(&r) % (TLS_RECORD_CONTENT_MAX + 1u), reader_left(&r) - 1);
    u8 type = read_u8(&r);
    struct part content = read_part(&r, content_len);
    memcpy(buf + TLS_RECORD_HEAD, data + content.off, content.len);
    u32 record_len = tls_seal(&client, cache, span_of(buf, sizeof buf), content.len, type);
    struct span out;
    u32 epoch = server.read.epoch;
    got = tls_open(&server, cache, span_of(buf, record_len), &out);
    if (got == TLS_OPEN_DATA && (out.len > content.len || type != TLS_CONTENT_DATA)) {
      if (type != 0) {  // a type of zero makes the content's last byte the type
        abort();
      }
    }
    if (server.read.epoch != epoch) {
      cipher_direction_update(&client.write, cipher_suite_find(client.cipher_suite));
    }
  }
  tls_record_fini(&client, cache);
  tls_record_fini(&server, cache);
  return 0;
}
