// SPDX-License-Identifier: Apache-2.0
// What only a PC has, among the files of this folder.
#pragma once
#include "base/cc.h"

#define PC_CPUS_MAX 64u

struct pc {
  u32 cpu_count;            // enabled in the MADT; 1 when there is none
  u32 cpu_id[PC_CPUS_MAX];  // local APICs of the first of them, as listed
  u64 ioapic_phys;
  u32 ioapic_gsi_base;
  struct pc_line {  // where an ISA interrupt arrives
    u32 gsi;
    bool low_active;
    bool level;
  } isa[16];
  u16 pm_timer_port;  // 0 = none
  bool pm_timer_32;
  u16 pm1a_control;
  u16 pm1b_control;
  u16 pm1_event[2];  // status; enable follows at half of pm1_event_len; 0 = none
  u8 pm1_event_len;
  u16 gpe[2];  // general-purpose events, in the same two halves
  u8 gpe_len[2];
  u16 sci;  // the interrupt of them all: an ISA number below 16, else a GSI
  u16 smi_command;
  u8 acpi_enable;
  bool power_button;   // as fixed hardware
  u64 sleep_register;  // of machines without fixed hardware; 0 = none
  bool sleep_in_io;
  u8 sleep_type_a;  // for S5; 0 when not found
  u8 sleep_type_b;
  u8 century_reg;
  bool reset_in_io;
  u64 reset_address;  // 0 = none
  u8 reset_value;
};
extern struct pc metal_pc;  // filled by machine_tables_read

u32 pc_apic_of(u32 core);        // its local APIC
void pc_clock_arrive(u32 core);  // on another core
bool pc_power_start(void);       // true: the button works, and the SCI is to be routed
u64 pc_tsc_of(u64 ns);           // the TSC value at which plat_now_ns() reaches ns
