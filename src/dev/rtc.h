// SPDX-License-Identifier: Apache-2.0
// The PC's battery clock (MC146818 and descendants), assumed to run in UTC.
#pragma once
#include "base/cc.h"

// Seconds since 1970; 0 when there is no clock or what it says is no date. century_reg: from ACPI's
// FADT, 0 when unknown (years 70-99 are then 19xx, others 20xx).
u64 rtc_read_unix(u8 century_reg);
// Days-from-civil; month 1-12, day 1-31; year >= 1970.
u64 rtc_unix_of(u32 year, u32 month, u32 day, u32 hour, u32 minute, u32 second);
