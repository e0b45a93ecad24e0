// SPDX-License-Identifier: Apache-2.0
// Lines of mosquitto's configuration dialect: `keyword value`, '#' in the first column begins a
// comment, the value reaches to the end of the line.
#pragma once
#include "base/bytes.h"

struct conf_line {
  u32 number;  // from 1
  struct part keyword;
  struct part value;  // may be empty; trailing spaces and CR removed
};
// The next line with a keyword at *pos (counting *number); false at the end of the text.
bool conf_next(struct bytes text, u32 *pos, u32 *number, struct conf_line *out);
