// SPDX-License-Identifier: Apache-2.0
// Values of an answer as text for people: columns as wide as what stands in them, nothing that a
// terminal would obey.
#pragma once
#include "base/json.h"

struct ctl_column {
  const char *key;
  const char *heading;
  bool right;  // numbers
};
// A value: yes and no, "-" for none; control characters as \xNN. In memory that lives as long as
// the program.
char *ctl_text(const struct json *j, u32 node);
// Columns end with a key of NULL. Rows gather until they are printed.
void ctl_row(const struct ctl_column *columns, const struct json *j, u32 object);
void ctl_print_rows(const struct ctl_column *columns);
// "key   value" lines of an object.
void ctl_print_object(const struct json *j, u32 object);
