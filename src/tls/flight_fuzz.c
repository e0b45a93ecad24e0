// SPDX-License-Identifier: Apache-2.0
// Fuzzes what a peer sends encrypted: a client with the right keys plays a whole handshake, and the
// input makes its second flight and what follows: the certificate list (bytes of the input, or the
// good certificate with bytes changed), CertificateVerify and Finished (right, changed or left
// out), other handshake messages, records cut anywhere, then inner plaintexts after the handshake
// (KeyUpdates, data, alerts). Who is let in without the good certificate, a right signature
// and a right Finished is a finding, and who is refused with them.
//
// Input: flags, split, changes or length (u16), then its bytes; then records {length u16, type,
// bytes}.
#include "tls/tls_client_test_support.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

enum {
  OPEN = 1,     // the server asks for no certificate
  CHANGED = 2,  // the good certificate with changes {offset u16, value}; else the input's bytes
  ISSUER = 4,   // the CA's certificate follows
  VERIFY_WRONG = 8,  // a bit of the signature is changed
  VERIFY_NONE = 16,
  FINISHED_WRONG = 32,
  RAW_MESSAGE = 64,  // the input's bytes are a handshake message of their own instead
  ONE_RECORD = 128,  // all messages in one record, else one each
};

struct play {
  struct raw_client c;
  struct tls_handshake *hs;
  enum tls_step step;
  u8 out[TEST_FLIGHT];  // the server's, not yet read
  u32 out_len;
  u8 pending[TEST_FLIGHT];  // messages not yet sealed
  u32 pending_len;
  u32 split;
  bool good;  // so far the server has no reason to refuse
};

static struct bytes good_certificate(const char *name) {
  static struct {
    const char *name;
    u8 *der;
    int len;
  } kept[2];
  u32 i = kept[0].name == NULL || strcmp(kept[0].name, name) == 0 ? 0 : 1;
  if (kept[i].name == NULL) {
    struct bytes pem = test_file(name);
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    kept[i].name = name;
    kept[i].len = i2d_X509(cert, &kept[i].der);
    X509_free(cert);
    BIO_free(bio);
  }
  return bytes_of(kept[i].der, (usize)kept[i].len);
}

static EVP_PKEY *good_key(void) {
  static EVP_PKEY *key;
  if (key == NULL) {
    struct bytes pem = test_file("client-p256-p256.key");
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    BIO_free(bio);
  }
  return key;
}

// Gives the server bytes, and keeps what it answers.
static void to_server(struct play *p, struct bytes in) {
  u32 pos = 0;
  while (p->step == TLS_STEP_WANT_INPUT || p->step == TLS_STEP_WANT_OUTPUT) {
    u32 consumed = 0;
    u32 produced = 0;
    p->step = tls_handshake_step(p->hs, bytes_of(in.ptr + pos, in.len - pos), &consumed,
                                 span_of(p->out + p->out_len, TEST_FLIGHT - p->out_len), &produced);
    pos += consumed;
    p->out_len += produced;
    if (pos == in.len && p->step == TLS_STEP_WANT_INPUT) {
      break;
    }
    if (consumed == 0 && produced == 0 && p->step == TLS_STEP_WANT_INPUT) {
      abort();
    }
  }
}

// The server's flight: read to its end, counted in the transcript.
static void read_flight(struct play *p) {
  u32 pos = 0;
  while (p->out_len - pos > 5) {
    u32 record_len = 5u + load_be16(p->out + pos + 3);
    u8 type = p->out[pos];
    struct bytes content = bytes_of(p->out + pos + 5, record_len - 5);
    ASSERT(record_len <= p->out_len - pos);
    if (type == TLS_CONTENT_HANDSHAKE) {
      raw_server_hello(&p->c, content);
    } else if (type == TLS_CONTENT_DATA) {
      content = raw_open(&p->c, span_of(p->out + pos, record_len), &type);
      ASSERT(type == TLS_CONTENT_HANDSHAKE);
      SHA256_Update(&p->c.transcript, content.ptr, content.len);
    }
    pos += record_len;
  }
  p->out_len = 0;
}

// Seals what is pending, in pieces of `split` bytes (0: as much as a record holds).
static void flush(struct play *p) {
  static u8 record[TLS_RECORD_MAX];
  u32 pos = 0;
  while (pos < p->pending_len && p->step == TLS_STEP_WANT_INPUT) {
    u32 piece = MIN(p->pending_len - pos, p->split != 0 ? p->split : TLS_RECORD_CONTENT_MAX);
    memcpy(record + TLS_RECORD_HEAD, p->pending + pos, piece);
    u32 n = tls_seal(&p->c.keys, p->c.cache, span_of(record, sizeof record), piece,
                     TLS_CONTENT_HANDSHAKE);
    to_server(p, bytes_of(record, n));
    pos += piece;
  }
  p->pending_len = 0;
}

static void message(struct play *p, struct bytes m, u8 flags) {
  if (m.len > TEST_FLIGHT - p->pending_len) {
    return;
  }
  memcpy(p->pending + p->pending_len, m.ptr, m.len);
  p->pending_len += (u32)m.len;
  SHA256_Update(&p->c.transcript, m.ptr, m.len);
  if ((flags & ONE_RECORD) == 0) {
    flush(p);
  }
}

static void send_certificate(struct play *p, struct bytes input, u8 flags) {
  static u8 m[TEST_FLIGHT];
  static u8 der[TEST_FLIGHT];
  struct bytes cert = input;
  struct bytes issuer = good_certificate("ca-p256.crt");
  if ((flags & CHANGED) != 0) {
    cert = good_certificate("client-p256-p256.crt");
    memcpy(der, cert.ptr, cert.len);
    cert.ptr = der;
    for (usize i = 0; i + 3 <= input.len; i += 3) {
      der[load_be16(input.ptr + i) % cert.len] = input.ptr[i + 2];
    }
  }
  p->good = p->good && bytes_equal(cert, good_certificate("client-p256-p256.crt"));
  u32 list_len = 0;
  list_len += cert.len > 0 ? 5 + (u32)cert.len : 0;
  list_len += (flags & ISSUER) != 0 ? 5 + (u32)issuer.len : 0;
  struct writer w = writer_init(span_of(m, sizeof m));
  write_be32(&w, 11u << 24 | (4 + list_len));
  write_be32(&w, list_len);  // no context, 24 bits
  if (cert.len > 0) {
    write_u8(&w, 0);
    write_be16(&w, (u16)cert.len);
    write_bytes(&w, cert);
    write_be16(&w, 0);
  }
  if ((flags & ISSUER) != 0) {
    write_u8(&w, 0);
    write_be16(&w, (u16)issuer.len);
    write_bytes(&w, issuer);
    write_be16(&w, 0);
  }
  if (w.err == ERR_OK) {
    message(p, writer_bytes(&w), flags);
  }
}

static void send_verify(struct play *p, u8 flags) {
  u8 signed_bytes[130];
  u8 m[256];
  usize len = sizeof m - 8;
  EVP_MD_CTX md;
  raw_to_sign(&p->c, signed_bytes);
  EVP_MD_CTX_init(&md);
  EVP_DigestSignInit(&md, NULL, EVP_sha256(), NULL, good_key());
  EVP_DigestSign(&md, m + 8, &len, signed_bytes, sizeof signed_bytes);
  EVP_MD_CTX_cleanup(&md);
  store_be32(m, 15u << 24 | (u32)(4 + len));
  store_be16(m + 4, SSL_SIGN_ECDSA_SECP256R1_SHA256);
  store_be16(m + 6, (u16)len);
  if ((flags & VERIFY_WRONG) != 0) {
    m[8 + len - 1] ^= 1;
    p->good = false;
  }
  message(p, bytes_of(m, 8 + len), flags);
}

static void send_finished(struct play *p, u8 flags) {
  u8 m[36];
  store_be32(m, 20u << 24 | 32);
  raw_finished(&p->c, m + 4);
  if ((flags & FINISHED_WRONG) != 0) {
    m[20] ^= 1;
    p->good = false;
  }
  message(p, bytes_of(m, sizeof m), flags);
}

// After the handshake: the input's inner plaintexts, sealed with the right keys.
static void talk(struct play *p, struct tls_record *server, struct reader *r) {
  static u8 record[TLS_RECORD_MAX];
  enum tls_open got = TLS_OPEN_NOTHING;
  while (reader_left(r) > 3 && got <= TLS_OPEN_KEY_UPDATE_REPLY) {
    u32 content_len = MIN(read_be16(r) % (TLS_RECORD_CONTENT_MAX + 1u), reader_left(r) - 1);
    u8 type = read_u8(r);
    struct part content = read_part(r, content_len);
    memcpy(record + TLS_RECORD_HEAD, r->base + content.off, content.len);
    u32 n = tls_seal(&p->c.keys, p->c.cache, span_of(record, sizeof record), content.len, type);
    u32 epoch = server->read.epoch;
    struct span out;
    got = tls_open(server, p->c.cache, span_of(record, n), &out);
    if (got == TLS_OPEN_FAILED && server->alert == TLS_ALERT_BAD_RECORD_MAC) {
      abort();  // both sides have the same keys
    }
    if (server->read.epoch != epoch) {
      cipher_direction_update(&p->c.keys.write, cipher_suite_find(TLS_AES_128_GCM_SHA256));
    }
    if (got == TLS_OPEN_KEY_UPDATE_REPLY) {
      n = tls_seal_key_update(server, p->c.cache, span_of(record, sizeof record), false);
      u8 inner = 0;
      struct bytes m = raw_open(&p->c, span_of(record, n), &inner);
      if (inner != TLS_CONTENT_HANDSHAKE || m.len != 5 || m.ptr[0] != 24 || m.ptr[4] != 0) {
        abort();
      }
      cipher_direction_update(&p->c.keys.read, cipher_suite_find(TLS_AES_128_GCM_SHA256));
    }
  }
}

static void end_of_play(struct play *p, struct reader *r, const u8 read[32], const u8 write[32]) {
  if (p->good != (p->step == TLS_STEP_DONE)) {
    abort();  // let in who should not be, or refused who should
  }
  if (p->step == TLS_STEP_DONE) {
    struct tls_record server;
    struct tls_identity identity;
    tls_handshake_finish(p->hs, &server, &identity);
    raw_use(&p->c, read, write);
    u8 type = 0;
    for (u32 pos = 0; p->out_len - pos > 5;) {  // tickets
      u32 n = 5u + load_be16(p->out + pos + 3);
      (void)raw_open(&p->c, span_of(p->out + pos, n), &type);
      pos += n;
    }
    talk(p, &server, r);
    tls_record_fini(&server, p->c.cache);
  } else {
    tls_handshake_abort(p->hs);
  }
  tls_record_fini(&p->c.keys, p->c.cache);
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static u8 memory[1 << 15] ALIGNED(64);
  static struct tls_context *contexts[2];
  static struct play p;
  u8 read[32];
  u8 write[32];
  test_start();
  test_random_state = TEST_RANDOM_SEED;
  if (contexts[0] == NULL) {
    contexts[0] = test_context((struct test_server){.crl = "revoked.crl"});
    contexts[1] = test_context((struct test_server){.open = true, .alpn = true});
    p.c.cache = tls_cipher_cache_init(span_of(memory, sizeof memory), 8);
  }
  struct reader r = reader_init(bytes_of(data, len));
  u8 flags = read_u8(&r);
  p.split = read_u8(&r);
  u32 input_len = MIN(read_be16(&r) % 8192u, reader_left(&r));
  struct bytes input = reader_bytes(&r, read_part(&r, input_len));
  if (r.err != ERR_OK) {
    return 0;
  }
  p.hs = tls_handshake_begin(contexts[flags & OPEN],
                             span_of(test_arena_memory, sizeof test_arena_memory), &test_now);
  p.step = TLS_STEP_WANT_INPUT;
  p.out_len = p.pending_len = 0;
  p.good = true;
  p.c.keys = (struct tls_record){0};
  u8 hello[512];
  u32 hello_len = raw_hello(&p.c, span_of(hello, sizeof hello), (flags & OPEN) != 0);
  to_server(&p, bytes_of(hello, hello_len));
  ASSERT(p.step == TLS_STEP_WANT_INPUT);
  read_flight(&p);
  raw_master(&p.c, read, write);
  if ((flags & RAW_MESSAGE) != 0) {
    p.good = input.len == 0 && (flags & OPEN) != 0;
    message(&p, input, flags);
  } else if ((flags & OPEN) == 0) {
    send_certificate(&p, input, flags);
  }
  if ((flags & VERIFY_NONE) != 0) {
    p.good = p.good && (flags & OPEN) != 0;
  } else if ((flags & OPEN) == 0) {
    send_verify(&p, flags);
  }
  send_finished(&p, flags);
  flush(&p);
  end_of_play(&p, &r, read, write);
  return 0;
}
