// SPDX-License-Identifier: Apache-2.0
// The one decision that is made on bytes nobody has authenticated: how long a record is (RFC
// 8446 5.1, 5.2). A file of its own, free of the library's headers, so that a proof reads it alone.
//
// I1  A result is 0 or 22..TLS_RECORD_MAX; no more than the five bytes are read.
#include "tls/record.h"
#include "tls/tls.h"

u32 tls_record_length(const u8 header[TLS_RECORD_HEAD]) {
  u32 body_len = (u32)header[3] << 8 | header[4];
  if (header[0] != TLS_CONTENT_DATA || header[1] != 3 || header[2] != 3) {
    return 0;
  }
  if (body_len < TLS_RECORD_TAIL || body_len > TLS_RECORD_BODY_MAX) {
    return 0;
  }
  return TLS_RECORD_HEAD + body_len;
}

u8 tls_record_fault(const u8 header[TLS_RECORD_HEAD]) {
  u32 body_len = (u32)header[3] << 8 | header[4];
  if (header[0] != TLS_CONTENT_DATA) {
    return TLS_ALERT_UNEXPECTED_MESSAGE;
  }
  if (header[1] != 3 || header[2] != 3) {
    return TLS_ALERT_DECODE_ERROR;
  }
  return body_len > TLS_RECORD_BODY_MAX ? TLS_ALERT_RECORD_OVERFLOW : TLS_ALERT_DECODE_ERROR;
}
