// SPDX-License-Identifier: Apache-2.0
// BoringSSL gives its traffic secrets through C++ spans; this is the same call for C. The two
// pointers stay valid until the SSL object changes keys or is freed.
#include <openssl/ssl.h>

extern "C" int urmqtt_traffic_secrets(const SSL *ssl, const uint8_t **read, const uint8_t **write,
                                      size_t *len) {
  bssl::Span<const uint8_t> from_peer;
  bssl::Span<const uint8_t> to_peer;
  if (!bssl::SSL_get_traffic_secrets(ssl, &from_peer, &to_peer) ||
      from_peer.size() != to_peer.size()) {
    return 0;
  }
  *read = from_peer.data();
  *write = to_peer.data();
  *len = from_peer.size();
  return 1;
}
