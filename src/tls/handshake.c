// SPDX-License-Identifier: Apache-2.0
// One handshake: the library's object in an arena, fed with slices and drained into slices.
//
//   begin -> step ... step -> DONE   -> finish (secrets to the record layer)
//                          -> FAILED -> abort
//
// I1  The handshake structure lies at the start of its arena; behind it an allocator serves the
//     library. Nothing of the library's survives in the arena (memory.h I1), the whole of it is
//     wiped.
// I2  A step either makes progress or says what it waits for; it never blocks and never loops
// without
//     consuming or producing.
// I3  The ticket is flushed before DONE (the library only queues it).
// I4  Nothing behind the client's Finished is consumed: the library reads record by record.
// I5  The server's private key works on the heap, not in the arena: blinding values and tables that
// an
//     RSA key makes as it goes outlive the handshake.
#include "tls/handshake.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/rsa.h>

#include "base/ip.h"
#include "tls/identity.h"
#include "tls/memory.h"
#include "tls/record.h"
#include "tls/verify.h"

#define EXTENSION_ALPN 16u

int urmqtt_traffic_secrets(const SSL *ssl, const u8 **read, const u8 **write, usize *len);

#define HOST_MAX 253u

enum phase { PHASE_SHAKE, PHASE_TICKET, PHASE_DONE, PHASE_FAILED };

struct tls_handshake {
  struct alloc alloc;
  struct span arena;
  struct tls_context *context;
  struct tls_time now;
  SSL *ssl;
  struct bytes in;  // of the step that runs
  u32 in_pos;
  struct writer out;
  enum phase phase;
  struct tls_failure failure;
  u8 alert_override;  // replaces the alert of a plaintext alert record; 0 = none
  struct tls_certificate_id client;
  struct tls_identity identity;  // names of the client, once it is judged
  u8 host_len;                   // we are the client: whom we called
  bool any_name;
  char host[HOST_MAX + 1];
};

const struct tls_context *handshake_context(const struct tls_handshake *hs) {
  return hs->context;
}
const struct tls_time *handshake_time(const struct tls_handshake *hs) {
  return &hs->now;
}
struct tls_certificate_id *handshake_client_id(struct tls_handshake *hs) {
  return &hs->client;
}
struct tls_identity *handshake_identity(struct tls_handshake *hs) {
  return &hs->identity;
}
void handshake_note_reason(struct tls_handshake *hs, enum tls_reason reason) {
  ASSERT(reason != TLS_REASON_NONE);
  if (hs->failure.reason == TLS_REASON_NONE) {
    hs->failure.reason = reason;
  }
}

// --- The library's input and output: a BIO over the slices of the current step.

static int bio_read(BIO *bio, char *out, int len) {
  struct tls_handshake *hs = bio->ptr;
  BIO_clear_retry_flags(bio);
  usize left = hs->in.len - hs->in_pos;
  if (len <= 0) {
    return 0;
  }
  if (left == 0) {
    BIO_set_retry_read(bio);
    return -1;
  }
  u32 take = (u32)MIN(left, (usize)len);
  memcpy(out, hs->in.ptr + hs->in_pos, take);
  hs->in_pos += take;
  return (int)take;
}

static int bio_write(BIO *bio, const char *data, int len) {
  struct tls_handshake *hs = bio->ptr;
  BIO_clear_retry_flags(bio);
  u32 room = writer_left(&hs->out);
  if (len <= 0) {
    return 0;
  }
  if (room == 0) {
    BIO_set_retry_write(bio);
    return -1;
  }
  u32 put = MIN(room, (u32)len);
  u32 start = hs->out.pos;
  write_bytes(&hs->out, bytes_of(data, put));
  if (hs->alert_override != 0 && put == 7 && data[0] == TLS_CONTENT_ALERT) {
    hs->out.base[start + 6] = hs->alert_override;  // level, description: RFC 8446 6
  }
  return (int)put;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer) {
  (void)bio, (void)number, (void)pointer;
  return command == BIO_CTRL_FLUSH;
}

static int bio_create(BIO *bio) {
  bio->init = 1;
  return 1;
}

static const BIO_METHOD bio_method = {
    .type = BIO_TYPE_SOURCE_SINK,
    .name = "slices",
    .bwrite = bio_write,
    .bread = bio_read,
    .ctrl = bio_ctrl,
    .create = bio_create,
};

// --- Callbacks

// The library asks for the time without saying for which connection, hence this (one a core when
// more cores handshake, as memory.c's arena). Set while a step runs.
static CORE_LOCAL const struct tls_time *time_of_step;

static void on_time(const SSL *ssl, struct timeval *out) {
  (void)ssl;
  ASSERT(time_of_step != NULL);
  out->tv_sec = (long)time_of_step->unix_s;
  out->tv_usec = 0;
}

static void on_info(const SSL *ssl, int type, int value) {
  struct tls_handshake *hs = SSL_get_app_data(ssl);
  if (type == SSL_CB_READ_ALERT && (value & 0xff) != TLS_ALERT_CLOSE_NOTIFY) {
    handshake_note_reason(hs, TLS_REASON_PEER_ALERT);
    hs->failure.alert = (u8)value;
  }
  if (type == SSL_CB_WRITE_ALERT && hs->failure.reason != TLS_REASON_PEER_ALERT) {
    hs->failure.alert = hs->alert_override != 0 ? hs->alert_override : (u8)value;
  }
}

// The ClientHello as it comes, before anything is decided. The library calls the ALPN callback only
// for clients that send the extension, so its absence is judged here (RFC 7301 3.2). An older
// client is left to the version check.
static enum ssl_select_cert_result_t on_client_hello(const SSL_CLIENT_HELLO *hello) {
  struct tls_handshake *hs = SSL_get_app_data(hello->ssl);
  const u8 *data = NULL;
  usize len = 0;
  bool tls13 =
      SSL_early_callback_ctx_extension_get(hello, TLSEXT_TYPE_supported_versions, &data, &len) == 1;
  if (hs->context->alpn_mqtt && tls13 &&
      !SSL_early_callback_ctx_extension_get(hello, EXTENSION_ALPN, &data, &len)) {
    handshake_note_reason(hs, TLS_REASON_ALPN);
    hs->alert_override = TLS_ALERT_NO_APPLICATION_PROTOCOL;
    return ssl_select_cert_error;
  }
  return ssl_select_cert_success;
}

static int on_alpn(SSL *ssl, const u8 **out, u8 *out_len, const u8 *in, unsigned in_len,
                   void *arg) {
  (void)arg;
  static const u8 mqtt[4] = {'m', 'q', 't', 't'};
  struct tls_handshake *hs = SSL_get_app_data(ssl);
  struct reader r = reader_init(bytes_of(in, in_len));
  while (reader_left(&r) > 0 && r.err == ERR_OK) {
    struct part name = read_part(&r, read_u8(&r));
    if (r.err == ERR_OK && bytes_equal(reader_bytes(&r, name), bytes_of(mqtt, sizeof mqtt))) {
      *out = mqtt;
      *out_len = sizeof mqtt;
      return SSL_TLSEXT_ERR_OK;
    }
  }
  if (!hs->context->alpn_mqtt) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  handshake_note_reason(hs, TLS_REASON_ALPN);
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// Signs on the heap (I5).
static enum ssl_private_key_result_t on_sign(SSL *ssl, u8 *out, usize *out_len, usize out_max,
                                             u16 algorithm, const u8 *in, usize in_len) {
  struct tls_handshake *hs = SSL_get_app_data(ssl);
  EVP_PKEY *key = hs->context->key;
  EVP_MD_CTX md;
  EVP_PKEY_CTX *pkey = NULL;
  memory_leave();
  EVP_MD_CTX_init(&md);
  bool ok =
      EVP_DigestSignInit(&md, &pkey, SSL_get_signature_algorithm_digest(algorithm), NULL, key) == 1;
  if (ok && SSL_is_signature_algorithm_rsa_pss(algorithm)) {
    ok = EVP_PKEY_CTX_set_rsa_padding(pkey, RSA_PKCS1_PSS_PADDING) == 1 &&
         EVP_PKEY_CTX_set_rsa_pss_saltlen(pkey, -1) == 1;
  }
  *out_len = out_max;
  ok = ok && EVP_DigestSign(&md, out, out_len, in, in_len) == 1;
  EVP_MD_CTX_cleanup(&md);
  memory_enter(&hs->alloc);
  return ok ? ssl_private_key_success : ssl_private_key_failure;
}

static enum ssl_private_key_result_t on_decrypt(SSL *ssl, u8 *out, usize *out_len, usize out_max,
                                                const u8 *in, usize in_len) {
  (void)ssl, (void)out, (void)out_len, (void)out_max, (void)in, (void)in_len;
  return ssl_private_key_failure;  // TLS 1.2's RSA key exchange only
}

static enum ssl_private_key_result_t on_complete(SSL *ssl, u8 *out, usize *out_len, usize out_max) {
  (void)ssl, (void)out, (void)out_len, (void)out_max;
  return ssl_private_key_failure;  // on_sign never defers
}

const SSL_PRIVATE_KEY_METHOD handshake_key_method = {
    .sign = on_sign, .decrypt = on_decrypt, .complete = on_complete};

void handshake_callbacks(SSL_CTX *ssl) {
  SSL_CTX_set_current_time_cb(ssl, on_time);
  SSL_CTX_set_info_callback(ssl, on_info);
  SSL_CTX_set_select_certificate_cb(ssl, on_client_hello);
  SSL_CTX_set_alpn_select_cb(ssl, on_alpn, NULL);
}

// --- Life

struct tls_handshake *tls_handshake_begin(struct tls_context *context, struct span arena,
                                          const struct tls_time *now) {
  ASSERT((uptr)arena.ptr % 16 == 0);
  usize own = ALIGN_UP(sizeof(struct tls_handshake), (usize)16);
  if (arena.len < own + 4096) {
    return NULL;
  }
  struct tls_handshake *hs = (struct tls_handshake *)(void *)arena.ptr;
  *hs = (struct tls_handshake){.arena = arena, .now = *now, .phase = PHASE_SHAKE};
  alloc_init(&hs->alloc, span_of(arena.ptr + own, arena.len - own));
  hs->context = tls_context_ref(context);
  return hs;
}

static bool be_server(struct tls_handshake *hs) {
  SSL_set_accept_state(hs->ssl);
  return true;
}

static bool be_client(struct tls_handshake *hs) {
  struct ip_addr address;
  struct bytes host = bytes_of(hs->host, hs->host_len);
  SSL_set_connect_state(hs->ssl);
  // RFC 6066 3: names only.
  return host.len == 0 || ip_parse(host, &address) ||
         SSL_set_tlsext_host_name(hs->ssl, hs->host) == 1;
}

static bool make_library_object(struct tls_handshake *hs) {
  hs->ssl = SSL_new(hs->context->ssl);
  BIO *bio = hs->ssl != NULL ? BIO_new(&bio_method) : NULL;
  if (bio == NULL || !SSL_set_app_data(hs->ssl, hs)) {
    BIO_free(bio);
    return false;
  }
  bio->ptr = hs;
  SSL_set_bio(hs->ssl, bio, bio);
  return hs->context->client ? be_client(hs) : be_server(hs);
}

struct tls_handshake *tls_handshake_begin_client(struct tls_context *context, struct span arena,
                                                 const struct tls_time *now, struct bytes host,
                                                 bool any_name) {
  ASSERT(context->client);
  ASSERT(host.len <= HOST_MAX);
  struct tls_handshake *hs = tls_handshake_begin(context, arena, now);
  if (hs != NULL) {
    hs->host_len = (u8)host.len;
    hs->any_name = any_name;
    memcpy(hs->host, host.ptr, host.len);
    hs->host[host.len] = 0;
  }
  return hs;
}

struct bytes handshake_host(const struct tls_handshake *hs) {
  return bytes_of(hs->host, hs->any_name ? 0 : hs->host_len);
}

// Wipes the arena, the handshake with it; the context's reference is given back.
static void end(struct tls_handshake *hs) {
  struct span arena = hs->arena;
  struct tls_context *context = hs->context;
  memory_enter(&hs->alloc);
  SSL_free(hs->ssl);
  ERR_clear_error();
  memory_leave();
  alloc_check(&hs->alloc);
  ASSERT(hs->alloc.count == 0);  // nothing of the library's is left in the arena
  alloc_fini(&hs->alloc);
  mem_wipe(arena.ptr, sizeof(struct tls_handshake));
  tls_context_unref(context);
}

void tls_handshake_abort(struct tls_handshake *hs) {
  end(hs);
}

// --- Failure

static enum tls_reason reason_of_error(u32 error) {
  if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) {
    return TLS_REASON_NO_MEMORY;
  }
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) {
    return TLS_REASON_NONE;
  }
  switch (ERR_GET_REASON(error)) {
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_WRONG_VERSION_NUMBER: return TLS_REASON_OLD_TLS;
  case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return TLS_REASON_NO_CERTIFICATE;
  case SSL_R_NO_SHARED_CIPHER:
  case SSL_R_NO_SHARED_GROUP:
  case SSL_R_NO_COMMON_SIGNATURE_ALGORITHMS: return TLS_REASON_NO_SHARED_CIPHER;
  default: return TLS_REASON_NONE;
  }
}

static enum tls_step fail(struct tls_handshake *hs) {
  for (u32 error = ERR_get_error(); error != 0; error = ERR_get_error()) {
    enum tls_reason reason = reason_of_error(error);
    if (reason == TLS_REASON_NO_MEMORY) {
      hs->failure.reason = reason;  // whatever was noted is its consequence
    } else if (reason != TLS_REASON_NONE) {
      handshake_note_reason(hs, reason);
    }
  }
  handshake_note_reason(hs, TLS_REASON_PROTOCOL);
  hs->failure.text = context_reason_text(hs->context, hs->failure.reason);
  hs->phase = PHASE_FAILED;
  return TLS_STEP_FAILED;
}

struct tls_failure tls_handshake_failure(const struct tls_handshake *hs) {
  ASSERT(hs->phase == PHASE_FAILED);
  return hs->failure;
}

// --- Steps

// A resumed client is judged again: its chain came out of the ticket, no check has been made.
static bool judge_resumed(struct tls_handshake *hs) {
  if (!SSL_session_reused(hs->ssl)) {
    return true;
  }
  u8 alert = TLS_ALERT_INTERNAL_ERROR;
  if (verify_resumed(hs->ssl, &alert) == TLS_REASON_NONE) {
    return true;
  }
  SSL_send_fatal_alert(hs->ssl, alert);
  return false;
}

// What the library's answer means for the caller.
static enum tls_step step_of(struct tls_handshake *hs, int answer) {
  switch (SSL_get_error(hs->ssl, answer)) {
  case SSL_ERROR_WANT_READ: ASSERT(hs->in_pos == hs->in.len); return TLS_STEP_WANT_INPUT;
  case SSL_ERROR_WANT_WRITE: return TLS_STEP_WANT_OUTPUT;
  default: return fail(hs);
  }
}

static enum tls_step advance(struct tls_handshake *hs) {
  ERR_clear_error();
  if (hs->ssl == NULL || SSL_get_rbio(hs->ssl) == NULL) {
    if (!make_library_object(hs)) {
      hs->failure.reason = TLS_REASON_NO_MEMORY;
      return fail(hs);
    }
  }
  if (hs->phase == PHASE_SHAKE) {
    int answer = SSL_do_handshake(hs->ssl);
    if (answer != 1) {
      return step_of(hs, answer);
    }
    if (!judge_resumed(hs)) {
      return fail(hs);
    }
    hs->phase = hs->context->client ? PHASE_DONE : PHASE_TICKET;
  }
  if (hs->phase == PHASE_TICKET) {
    int answer = SSL_write(hs->ssl, "", 0);  // I3
    if (answer < 0) {
      return step_of(hs, answer);
    }
    hs->phase = PHASE_DONE;
  }
  return TLS_STEP_DONE;
}

enum tls_step tls_handshake_step(struct tls_handshake *hs, struct bytes in, u32 *consumed,
                                 struct span out, u32 *produced) {
  ASSERT(hs->phase != PHASE_FAILED);
  ASSERT(in.len <= U32_MAX);
  hs->in = in;
  hs->in_pos = 0;
  hs->out = writer_init(out);
  memory_enter(&hs->alloc);
  time_of_step = &hs->now;
  enum tls_step step = advance(hs);
  time_of_step = NULL;
  ERR_clear_error();
  memory_leave();
  *consumed = hs->in_pos;
  *produced = hs->out.pos;
  hs->in = bytes_of(NULL, 0);
  return step;
}

// --- Hand-over

static void take_direction(struct tls_direction *d, const u8 *secret, usize len, u64 sequence) {
  *d = (struct tls_direction){.epoch = 0};
  ASSERT(len == 32 || len == 48);
  memcpy(d->secret, secret, len);
  d->sequence = sequence;
}

void tls_handshake_finish(struct tls_handshake *hs, struct tls_record *record,
                          struct tls_identity *identity) {
  ASSERT(hs->phase == PHASE_DONE);
  const u8 *read = NULL;
  const u8 *write = NULL;
  usize len = 0;
  memory_enter(&hs->alloc);
  int ok = urmqtt_traffic_secrets(hs->ssl, &read, &write, &len);
  ASSERT(ok == 1);
  *record = (struct tls_record){.client = hs->client, .from_server = hs->context->client};
  record->cipher_suite = (u16)SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(hs->ssl));
  take_direction(&record->read, read, len, SSL_get_read_sequence(hs->ssl));
  take_direction(&record->write, write, len, SSL_get_write_sequence(hs->ssl));
  if (identity != NULL) {
    *identity = hs->identity;
    identity_session(identity, hs->ssl);
  }
  memory_leave();
  tls_record_start(record);
  end(hs);
}

u32 handshake_arena_peak(const struct tls_handshake *hs) {
  return hs->alloc.peak + (u32)ALIGN_UP(sizeof *hs, (usize)16);
}
void handshake_fail_after(struct tls_handshake *hs, u32 allocations) {
  hs->alloc.fail_after = allocations;
}
