// SPDX-License-Identifier: Apache-2.0
// Sealing and opening TLS 1.3 records in place, KeyUpdate, alerts (RFC 8446 4.6.3, 5, 6).
//
// The invariants are in record.h. Limits against a peer that sends much that means nothing:
// EMPTY_MAX records without content in a row, UPDATE_MAX KeyUpdates without data in between; the
// library has the same ones during the handshake.
#include "tls/record.h"

#include <openssl/err.h>

#include "tls/cipher.h"
#include "tls/tls.h"

#define EMPTY_MAX 32u
#define UPDATE_MAX 32u
#define SEQUENCE_ASK (1ull << 23)
#define SEQUENCE_MAX (1ull << 24)
#define TAG_LEN 16u
#define HANDSHAKE_NEW_TICKET 4u
#define HANDSHAKE_KEY_UPDATE 24u
#define TICKET_MAX 70000u  // RFC 8446 4.6.1: a ticket of 65535 bytes and what is around it
#define KEY_UPDATE_LEN 5u

enum { STATE_OPEN = 0, STATE_READ_END = 1, STATE_WRITE_END = 2 };

void tls_record_start(struct tls_record *record) {
  const struct cipher_suite *suite = cipher_suite_find(record->cipher_suite);
  ASSERT(suite != NULL);
  u64 read = record->read.sequence;
  u64 write = record->write.sequence;
  cipher_direction_expand(&record->read, suite);
  cipher_direction_expand(&record->write, suite);
  record->read.sequence = read;
  record->write.sequence = write;
}

// The per-record nonce: iv XOR sequence number (RFC 8446 5.3).
static void make_nonce(u8 nonce[12], const struct tls_direction *d) {
  memcpy(nonce, d->iv, 12);
  u64 low = load_be64(nonce + 4) ^ d->sequence;
  store_be64(nonce + 4, low);
}

static void write_header(u8 *out, u32 body_len) {
  ASSERT(body_len <= TLS_RECORD_BODY_MAX);
  out[0] = TLS_CONTENT_DATA;
  out[1] = 3;
  out[2] = 3;
  store_be16(out + 3, (u16)body_len);
}

// --- Writing

u32 tls_seal(struct tls_record *record, struct tls_cipher_cache *cache, struct span buf,
             u32 content_len, enum tls_content type) {
  ASSERT(content_len <= TLS_RECORD_CONTENT_MAX);
  ASSERT(buf.len >= content_len + TLS_RECORD_OVERHEAD);
  ASSERT((record->state & STATE_WRITE_END) == 0);
  const struct cipher_suite *suite = cipher_suite_find(record->cipher_suite);
  ASSERT(suite != NULL);
  struct tls_direction *d = &record->write;
  ASSERT(!suite->limited || d->sequence < SEQUENCE_MAX);
  u8 *content = buf.ptr + TLS_RECORD_HEAD;
  content[content_len] = (u8)type;
  write_header(buf.ptr, content_len + TLS_RECORD_TAIL);
  u8 nonce[12];
  make_nonce(nonce, d);
  usize tag_len = 0;
  int ok = EVP_AEAD_CTX_seal_scatter(
      cipher_context(cache, d, suite), content, content + content_len + 1, &tag_len, TAG_LEN, nonce,
      sizeof nonce, content, content_len + 1, NULL, 0, buf.ptr, TLS_RECORD_HEAD);
  ASSERT(ok == 1);
  ASSERT(tag_len == TAG_LEN);
  d->sequence++;
  return content_len + TLS_RECORD_OVERHEAD;
}

bool tls_write_wants_update(const struct tls_record *record) {
  return record->write.sequence >= SEQUENCE_ASK;
}

u32 tls_seal_key_update(struct tls_record *record, struct tls_cipher_cache *cache, struct span buf,
                        bool request) {
  ASSERT(buf.len >= TLS_KEY_UPDATE_RECORD_BYTES);
  const u8 message[KEY_UPDATE_LEN] = {HANDSHAKE_KEY_UPDATE, 0, 0, 1, request};
  memcpy(buf.ptr + TLS_RECORD_HEAD, message, sizeof message);
  u32 len = tls_seal(record, cache, buf, KEY_UPDATE_LEN, TLS_CONTENT_HANDSHAKE);
  cipher_forget(cache, &record->write);
  cipher_direction_update(&record->write, cipher_suite_find(record->cipher_suite));
  ASSERT(record->write.sequence == 0);
  return len;
}

u32 tls_seal_alert(struct tls_record *record, struct tls_cipher_cache *cache, struct span buf,
                   u8 alert) {
  ASSERT(buf.len >= TLS_ALERT_RECORD_BYTES);
  buf.ptr[TLS_RECORD_HEAD] = alert == TLS_ALERT_CLOSE_NOTIFY ? 1 : 2;  // warning, fatal
  buf.ptr[TLS_RECORD_HEAD + 1] = alert;
  u32 len = tls_seal(record, cache, buf, 2, TLS_CONTENT_ALERT);
  record->state |= STATE_WRITE_END;
  return len;
}

// --- Reading

static enum tls_open fail(struct tls_record *record, u8 alert) {
  record->alert = alert;
  record->state |= STATE_READ_END;
  return TLS_OPEN_FAILED;
}

static enum tls_open open_alert(struct tls_record *record, struct bytes content) {
  if (content.len != 2) {
    return fail(record, TLS_ALERT_DECODE_ERROR);
  }
  record->state |= STATE_READ_END;
  record->alert = content.ptr[1];
  return content.ptr[1] == TLS_ALERT_CLOSE_NOTIFY ? TLS_OPEN_CLOSED : TLS_OPEN_PEER_ALERT;
}

// KeyUpdate: 18 00 00 01 and 0 or 1; the only handshake message a client may send now. It may come
// in pieces, but the record that completes it must end with it (RFC 8446 5.1: not across a key
// change).
static enum tls_open open_key_update(struct tls_record *record, struct tls_cipher_cache *cache,
                                     struct bytes content) {
  static const u8 expected[4] = {HANDSHAKE_KEY_UPDATE, 0, 0, 1};
  if (content.len > KEY_UPDATE_LEN - record->partial_len) {
    return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);
  }
  memcpy(record->partial + record->partial_len, content.ptr, content.len);
  record->partial_len = (u8)(record->partial_len + content.len);
  ASSERT(record->partial_len <= KEY_UPDATE_LEN);
  if (memcmp(record->partial, expected, MIN(4u, record->partial_len)) != 0) {
    return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);
  }
  if (record->partial_len < KEY_UPDATE_LEN) {
    return TLS_OPEN_NOTHING;
  }
  u8 request = record->partial[4];
  record->partial_len = 0;
  if (request > 1) {
    return fail(record, TLS_ALERT_ILLEGAL_PARAMETER);
  }
  if (++record->key_update_count > UPDATE_MAX) {
    return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);
  }
  cipher_forget(cache, &record->read);
  cipher_direction_update(&record->read, cipher_suite_find(record->cipher_suite));
  return request == 1 ? TLS_OPEN_KEY_UPDATE_REPLY : TLS_OPEN_NOTHING;
}

// What a server may send: NewSessionTicket (RFC 8446 4.6.1), which we do not keep, and KeyUpdate.
static enum tls_open open_from_server(struct tls_record *record, struct tls_cipher_cache *cache,
                                      struct bytes content) {
  while (content.len > 0) {
    if (record->skip > 0) {
      u32 n = (u32)MIN(content.len, (usize)record->skip);
      record->skip -= n;
      content = bytes_skip(content, n);
      continue;
    }
    ASSERT(record->partial_len < KEY_UPDATE_LEN);
    if (record->partial_len < 4) {
      record->partial[record->partial_len++] = content.ptr[0];
      content = bytes_skip(content, 1);
    }
    if (record->partial[0] != HANDSHAKE_NEW_TICKET) {
      if (record->partial_len == 4) {
        return open_key_update(record, cache, content);
      }
    } else if (record->partial_len == 4) {
      record->skip = load_be32(record->partial) & 0xffffff;
      record->partial_len = 0;
      if (record->skip > TICKET_MAX || ++record->key_update_count > UPDATE_MAX) {
        return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);
      }
    }
  }
  return TLS_OPEN_NOTHING;
}

static enum tls_open open_content(struct tls_record *record, struct tls_cipher_cache *cache,
                                  u8 type, struct span plain, struct span *content) {
  if ((record->partial_len != 0 || record->skip != 0) && type != TLS_CONTENT_HANDSHAKE) {
    return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);  // RFC 8446 5.1: not interleaved
  }
  switch (type) {
  case TLS_CONTENT_DATA:
    if (plain.len == 0) {
      return ++record->empty_count > EMPTY_MAX ? fail(record, TLS_ALERT_UNEXPECTED_MESSAGE)
                                               : TLS_OPEN_NOTHING;
    }
    record->empty_count = 0;
    record->key_update_count = 0;
    *content = plain;
    return TLS_OPEN_DATA;
  case TLS_CONTENT_ALERT: return open_alert(record, span_bytes(plain));
  case TLS_CONTENT_HANDSHAKE:
    if (plain.len == 0) {
      return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);  // RFC 8446 5.4
    }
    return record->from_server ? open_from_server(record, cache, span_bytes(plain))
                               : open_key_update(record, cache, span_bytes(plain));
  default: return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);
  }
}

enum tls_open tls_open(struct tls_record *record, struct tls_cipher_cache *cache,
                       struct span sealed, struct span *content) {
  ASSERT((record->state & STATE_READ_END) == 0);
  ASSERT(sealed.len >= TLS_RECORD_OVERHEAD);
  ASSERT(tls_record_length(sealed.ptr) == sealed.len);
  const struct cipher_suite *suite = cipher_suite_find(record->cipher_suite);
  ASSERT(suite != NULL);
  struct tls_direction *d = &record->read;
  u8 nonce[12];
  make_nonce(nonce, d);
  u8 *body = sealed.ptr + TLS_RECORD_HEAD;
  usize inner_len = sealed.len - TLS_RECORD_HEAD - TAG_LEN;
  int ok =
      d->sequence < U64_MAX &&
      EVP_AEAD_CTX_open_gather(cipher_context(cache, d, suite), body, nonce, sizeof nonce, body,
                               inner_len, body + inner_len, TAG_LEN, sealed.ptr, TLS_RECORD_HEAD);
  if (!ok) {
    ERR_clear_error();
    mem_wipe(body, inner_len);
    return fail(record, TLS_ALERT_BAD_RECORD_MAC);
  }
  d->sequence++;
  // RFC 8446 5.4: the type is the last byte that is not zero.
  while (inner_len > 0 && body[inner_len - 1] == 0) {
    inner_len--;
  }
  if (inner_len == 0) {
    return fail(record, TLS_ALERT_UNEXPECTED_MESSAGE);
  }
  inner_len--;
  if (inner_len > TLS_RECORD_CONTENT_MAX) {
    return fail(record, TLS_ALERT_RECORD_OVERFLOW);
  }
  return open_content(record, cache, body[inner_len], span_of(body, inner_len), content);
}

void tls_record_fini(struct tls_record *record, struct tls_cipher_cache *cache) {
  cipher_forget(cache, &record->read);
  cipher_forget(cache, &record->write);
  mem_wipe(record, sizeof *record);
}
