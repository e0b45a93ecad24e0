// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

static const char *const names[ERR_COUNT] = {
    [ERR_OK] = "ok",
    [ERR_AGAIN] = "again",
    [ERR_SHORT] = "input too short",
    [ERR_SPACE] = "no space",
    [ERR_NO_MEMORY] = "out of memory",
    [ERR_LIMIT] = "limit reached",
    [ERR_MALFORMED] = "malformed",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_NOT_FOUND] = "not found",
    [ERR_EXISTS] = "exists already",
    [ERR_INVALID] = "invalid",
    [ERR_DENIED] = "denied",
    [ERR_CLOSED] = "closed",
    [ERR_RESET] = "reset by peer",
    [ERR_TIMEOUT] = "timed out",
    [ERR_UNREACHABLE] = "unreachable",
    [ERR_IO] = "input/output error",
    [ERR_CORRUPT] = "corrupt",
    [ERR_RANGE] = "out of range",
    [ERR_BUSY] = "busy",
};

const char *err_name(enum err e) {
  if ((u32)e >= ERR_COUNT || names[e] == NULL) {
    return "unknown error";
  }
  return names[e];
}
