// SPDX-License-Identifier: GPL-2.0-or-later
//! The part of QEMU's plugin interface, version 1, that is used: own declarations of its C functions.
//!
//! QEMU resolves them when it loads the plugin. Everything behind a pointer is opaque and QEMU's.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A plugin's number.
pub type Id = u64;

/// A block of guest code while it is translated.
#[repr(C)]
pub struct Tb(c_void);

/// An instruction of such a block.
#[repr(C)]
pub struct Insn(c_void);

/// What is known of a memory access, packed.
pub type MemInfo = u32;

/// Callbacks read no registers.
pub const NO_REGS: c_int = 0;
/// The only inline operation of version 1.
pub const INLINE_ADD_U64: c_int = 0;
/// Memory callbacks for reads and writes.
pub const MEM_RW: c_int = 3;

pub type VcpuCb = extern "C" fn(Id, c_uint);
pub type TransCb = extern "C" fn(Id, *mut Tb);
pub type ExecCb = extern "C" fn(c_uint, *mut c_void);
pub type MemCb = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
/// A system call begins: its number and eight arguments.
pub type SyscallCb = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// It has ended: its number and result.
pub type SyscallRetCb = extern "C" fn(Id, c_uint, i64, i64);
pub type ExitCb = extern "C" fn(Id, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, cb: VcpuCb);
    pub fn qemu_plugin_register_vcpu_exit_cb(id: Id, cb: VcpuCb);
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: Id, cb: SyscallCb);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, cb: SyscallRetCb);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, cb: TransCb);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(tb: *mut Tb, cb: ExecCb, flags: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_inline(tb: *mut Tb, op: c_int, at: *mut c_void, imm: u64);
    pub fn qemu_plugin_register_vcpu_mem_cb(insn: *mut Insn, cb: MemCb, flags: c_int, rw: c_int, data: *mut c_void);
    pub fn qemu_plugin_register_atexit_cb(id: Id, cb: ExitCb, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn) -> *const u8;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_outs(text: *const c_char);
}
