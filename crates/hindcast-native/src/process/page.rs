//! A process that makes frequent system calls at a page of ours (`record::page`): whoever is stopped there stands before its
//! call or behind it, for everybody else.

use super::{Process, task::Task};
use crate::{
    record::page::{self, Page, Stand, Told},
    sys::{Call, Event, GeneralRegisters, Resume, SYSCALL_LENGTH, Stopped, Tid, TraceError},
};

/// Calls after which a program's memory may be gone.
const ENDINGS: [i64; 4] = [libc::SYS_exit, libc::SYS_exit_group, libc::SYS_execve, libc::SYS_execveat];

impl Process {
    /// The thread that runs, for a test that moves it by itself.
    #[cfg(test)]
    pub(crate) fn take_thread(&mut self) -> Stopped {
        let acting = self.acting();
        self.tasks.get_mut(&acting).unwrap().take().unwrap()
    }

    /// What an event is once what was noted at the page is in the log, and nobody stands there.
    pub(super) fn off_page(&mut self, event: Event) -> Result<Event, TraceError> {
        let has_page = self.recorder.as_ref().is_some_and(|recorder| recorder.page().is_some());
        if std::mem::replace(&mut self.had_page, has_page) && !has_page {
            self.told_late = self.tasks.keys().copied().collect();
        }
        if !has_page {
            return match event {
                // The recording has ended when it was on its way. It makes the call by itself. Once only: a program can have its
                // calls told in the same way.
                Event::Signal(stopped, libc::SIGSYS)
                    if page::is_told_of_call(&stopped)? && self.told_late.remove(&stopped.tid()) =>
                {
                    self.call_again(stopped)
                }
                event => Ok(event),
            };
        }
        match event {
            Event::Signal(stopped, signal) if self.knows(&stopped) => {
                if signal == libc::SIGSYS && page::is_told_of_call(&stopped)? {
                    return self.told_of_call(stopped);
                }
                self.stand_off_page(&stopped)?;
                Ok(Event::Signal(stopped, signal))
            }
            Event::Stop(stopped, signal) if self.knows(&stopped) => {
                // What it is about to be told of says where it stands.
                if !stopped.is_about_to_trap()? {
                    self.stand_off_page(&stopped)?;
                }
                Ok(Event::Stop(stopped, signal))
            }
            Event::Call(stopped) if self.knows(&stopped) => self.call_off_page(stopped),
            other => Ok(other),
        }
    }

    fn stand_off_page(&mut self, stopped: &Stopped) -> Result<(), TraceError> {
        if stopped.tid() != self.acting() {
            // It is in a call. The one that runs may be at the page, and notes something just now.
            return Ok(());
        }
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        recorder.take_noted(&self.memory);
        let registers = stopped.registers()?;
        let Some(page) = recorder.page_mut() else { return Ok(()) };
        if !page.is_at(registers.pc()) {
            return Ok(());
        }
        stopped.mend_call()?;
        if stopped.registers()?.is_call_interrupted() {
            // It waits, after all: it does so where that is seen.
            page.ask_for_call(&self.memory);
        }
        // A program can also jump here by mistake, and then it just stands there.
        match page.stand(&stopped.registers()?, &self.memory).unwrap_or(Stand::Elsewhere) {
            Stand::Elsewhere => {}
            Stand::Before(registers) | Stand::Noted(registers) => stopped.set_registers(&registers)?,
            Stand::Made(registers, made) => {
                stopped.set_registers(&registers)?;
                recorder.made_at_page(&made, &self.memory);
            }
        }
        Ok(())
    }

    /// A call begins or ends.
    fn call_off_page(&mut self, stopped: Stopped) -> Result<Event, TraceError> {
        let call = stopped.call()?;
        if let Call::Entry { pc, .. } = call
            && let Some(recorder) = &mut self.recorder
            && let Some(page) = recorder.page_mut()
        {
            page.saw_call();
            if let Some(pc) = page.called_from(pc, &self.memory)? {
                let mut registers = stopped.registers()?;
                registers.set("rip", pc);
                registers.set("rcx", pc);
                stopped.set_registers(&registers)?;
            }
        }
        if let Some(task) = self.tasks.get_mut(&stopped.tid()) {
            task.in_told_call = matches!(call, Call::Entry { .. });
        }
        Ok(Event::Call(stopped))
    }

    /// A thread is about to make a call that is not made at the page, or made one there that has to be looked at.
    fn told_of_call(&mut self, stopped: Stopped) -> Result<Event, TraceError> {
        let tid = stopped.tid();
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        recorder.take_noted(&self.memory);
        let registers = stopped.registers()?;
        let Some(page) = recorder.page_mut() else {
            // The recording has just ended. It makes the call by itself.
            return self.call_again(stopped);
        };
        page.mend_mask(&stopped)?;
        let (pc, is_at_page) = match page.told_at(registers.pc(), &self.memory)? {
            Told::Call { pc, is_at_page } => (pc, is_at_page),
            Told::HandedOver => {
                let Stand::Made(registers, made) = page.stand(&registers, &self.memory)? else {
                    return Err(TraceError::Gone);
                };
                stopped.set_registers(&registers)?;
                let stopped = recorder.handed_over(stopped, &made, &self.memory, &self.overlay)?;
                return Ok(Event::Call(stopped));
            }
        };
        let number = registers.get("rax").unwrap_or_default();
        if redefined(number as i64, &arguments_of(&registers)).is_some_and(|range| page::overlaps(&range)) {
            return self.leave_page(stopped);
        }
        page.saw_call();
        let task = self.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        if task.how == Resume::Step {
            task.how = Resume::Call;
            task.in_call_step = true;
        }
        let mut stopped = stopped;
        if !is_at_page {
            if self.is_32_bit_call(pc) {
                return self.begin_32_bit_call(stopped, pc);
            }
            if Page::takes(number) {
                let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
                let page = recorder.page_mut().ok_or(TraceError::Gone)?;
                let mut held = Vec::new();
                stopped = page.take_over(stopped, pc, (&self.memory, &mut self.overlay), &mut held)?;
                recorder.hold(&held);
            }
        }
        let event = page::begin_call(stopped, pc, number)?;
        self.note_told(event)
    }

    fn note_told(&mut self, event: Event) -> Result<Event, TraceError> {
        if let Event::Call(stopped) = &event
            && let Some(task) = self.tasks.get_mut(&stopped.tid())
        {
            task.in_told_call = true;
        }
        Ok(event)
    }

    fn is_32_bit_call(&self, pc: u64) -> bool {
        const INTERRUPT: [u8; 2] = [0xcd, 0x80];
        let mut code = [0; 2];
        self.memory().read_some(pc - SYSCALL_LENGTH, &mut code) == 2 && code == INTERRUPT
    }

    /// It has to be made by the program's own instruction.
    fn begin_32_bit_call(&mut self, stopped: Stopped, pc: u64) -> Result<Event, TraceError> {
        let tid = stopped.tid();
        let select = |process: &Self, told: bool| {
            if let Some(page) = process.recorder.as_ref().and_then(|recorder| recorder.page()) {
                page.select(&process.memory, told);
            }
        };
        let mut registers = stopped.registers()?;
        registers.set("rip", pc - SYSCALL_LENGTH);
        registers.set("orig_rax", u64::MAX);
        stopped.set_registers(&registers)?;
        select(self, false);
        stopped.resume(Resume::Call, 0)?;
        let event = crate::sys::wait_for(tid)?;
        select(self, true);
        self.note_told(event)
    }

    /// A thread is about to make a call that takes the page away.
    fn leave_page(&mut self, stopped: Stopped) -> Result<Event, TraceError> {
        let recorder = self.recorder.as_mut().ok_or(TraceError::Gone)?;
        let mut held = Vec::new();
        let stopped = page::tell_no_calls(stopped, recorder.live_gate(), &mut held)?;
        recorder.hold(&held);
        recorder.put_page_away();
        self.call_again(stopped)
    }

    /// A thread makes the call again that it was about to make, where calls are not told any more.
    fn call_again(&mut self, stopped: Stopped) -> Result<Event, TraceError> {
        let mut registers = stopped.registers()?;
        let pc = page::told_from(registers.pc(), &self.memory)?;
        registers.set("rip", pc - SYSCALL_LENGTH);
        registers.set("orig_rax", u64::MAX);
        stopped.set_registers(&registers)?;
        self.note_page();
        Ok(Event::Other(stopped))
    }

    /// Whether the threads' calls are told, as far as that has changed for all of them.
    pub(super) fn note_page(&mut self) {
        let page = self.recorder.as_ref().and_then(|recorder| recorder.page());
        let tells = page.is_some_and(|page| !page.is_put_aside);
        if page.is_none() {
            self.overlay.forget_calls();
        }
        for task in self.tasks.values_mut() {
            task.tells_calls = tells;
        }
    }

    /// The calls of a thread are told that another one has just made.
    pub(super) fn tell_calls(&mut self, newborn: Stopped, by: Tid) -> Result<Stopped, TraceError> {
        let Some(recorder) = self.recorder.as_mut() else { return Ok(newborn) };
        let gate = recorder.live_gate();
        let Some(page) = recorder.page_mut() else { return Ok(newborn) };
        page.on_thread(by, newborn.tid());
        let mut held = recorder.take_held();
        let (newborn, is_told) = page::tell_calls(newborn, gate, recorder.held_mut())?;
        if !is_told {
            recorder.put_page_away();
        }
        self.send_held_to(newborn.tid());
        if let Some(recorder) = &mut self.recorder {
            recorder.held_mut().append(&mut held);
        }
        Ok(newborn)
    }

    /// Says whether calls may be made at the page, before the process goes on.
    pub(super) fn set_page(&mut self) {
        let acting = self.acting();
        let steps = self.tasks.get(&acting).is_some_and(|task| task.in_call_step);
        let others = self.takes_turns() && self.any_ready();
        let watches = !self.debug_registers.is_empty();
        let runs = self.tasks.get(&acting).is_some_and(Task::is_running);
        let Some(recorder) = &mut self.recorder else { return };
        let all = steps || others || watches || recorder.must_see_calls();
        let Some(page) = recorder.page_mut() else { return };
        if runs && all {
            page.ask_for_call(&self.memory);
        } else if !runs {
            page.put_aside(&self.memory, all);
            self.note_page();
        }
    }

    /// A checkpoint is due. One that makes calls at the page makes the next one elsewhere, which is the better place for a
    /// checkpoint; false where that was waited for in vain.
    pub(super) fn ask_for_call(&mut self) -> bool {
        let memory = &self.memory;
        let page = self.recorder.as_mut().and_then(|recorder| recorder.page_mut());
        page.is_some_and(|page| page.is_busy(memory) && page.ask_for_call(memory))
    }

    /// A call may take code away that jumps to the page, or what leads there.
    pub(super) fn follow_code(&mut self, tid: Tid, call: Call) -> Result<(), TraceError> {
        if let Call::Entry { number, is_32_bit: false, .. } = call
            && ENDINGS.contains(&(number as i64))
        {
            self.look_at_sieves();
        }
        if let Call::Entry { number, arguments, is_32_bit: false, .. } = call
            && let Some(range) = redefined(number as i64, &arguments)
        {
            self.make_room(&range);
        }
        let Some(recorder) = self.recorder.as_mut() else { return Ok(()) };
        let result = match call {
            Call::Entry { number, arguments, is_32_bit: false, .. } => {
                if redefined(number as i64, &arguments).is_some_and(|range| page::overlaps(&range)) {
                    recorder.put_page_away();
                    self.note_page();
                }
                return Ok(());
            }
            Call::Exit { result } => result,
            _ => return Ok(()),
        };
        let call = recorder.call_of(tid);
        let range = call.and_then(|(number, arguments)| redefined(number, &arguments));
        let Some(range) = range.filter(|_| !(-4095..0).contains(&result)) else { return Ok(()) };
        self.overlay.forget_patches(range.clone());
        self.forget_sieves_in(&range);
        let Some(recorder) = self.recorder.as_mut() else { return Ok(()) };
        if let Some(page) = recorder.page_mut() {
            page.forget_sites(&range);
        }
        Ok(())
    }
}

/// The arguments of a call that a thread is about to make.
fn arguments_of(registers: &GeneralRegisters) -> [u64; 6] {
    ["rdi", "rsi", "rdx", "r10", "r8", "r9"].map(|name| registers.get(name).unwrap_or_default())
}

/// The memory that a call takes away, or puts other memory in the place of.
fn redefined(number: i64, arguments: &[u64; 6]) -> Option<std::ops::Range<u64>> {
    let [start, length, _, flags, ..] = *arguments;
    let is_meant = match number {
        libc::SYS_munmap | libc::SYS_mremap => true,
        libc::SYS_mmap => flags & libc::MAP_FIXED as u64 != 0,
        _ => false,
    };
    is_meant.then(|| start..start.saturating_add(length))
}
