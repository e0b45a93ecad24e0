// SPDX-License-Identifier: Apache-2.0
// One error type for the whole program. 0 is fine. Three kinds are never confused (STYLE): our bug
// is an assertion, a peer's fault is a protocol reason (mqtt_reason, tls alert), a shortage is
// back-pressure.
#pragma once
#include "base/cc.h"

enum err {
  ERR_OK = 0,
  ERR_AGAIN,        // nothing to do now; ask again after the event this function names
  ERR_SHORT,        // the input ends before the item does; more bytes may complete it
  ERR_SPACE,        // the output buffer is too small
  ERR_NO_MEMORY,    // a pool is empty: back-pressure, never a crash
  ERR_LIMIT,        // a configured ceiling was reached
  ERR_MALFORMED,    // the bytes break the syntax of their format
  ERR_UNSUPPORTED,  // well-formed, but nothing we offer
  ERR_NOT_FOUND,
  ERR_EXISTS,
  ERR_INVALID,  // an argument from a user (configuration, command) is wrong
  ERR_DENIED,   // not permitted
  ERR_CLOSED,   // the peer or we have ended this
  ERR_RESET,    // the peer reset the connection
  ERR_TIMEOUT,
  ERR_UNREACHABLE,
  ERR_IO,       // a device or the host reported failure
  ERR_CORRUPT,  // stored data fails its checksum
  ERR_RANGE,    // a number is outside its documented range
  ERR_BUSY,
  ERR_COUNT
};

// A short lower-case name for a console or a log; never NULL.
const char *err_name(enum err e);

// The one macro with control flow: leave with the error of `expr` unless it is ERR_OK.
#define TRY(expr)                       \
  do {                                  \
    enum err try_err_ = (expr);         \
    if (UNLIKELY(try_err_ != ERR_OK)) { \
      return try_err_;                  \
    }                                   \
  } while (0)
