#!/usr/bin/perl
# Cuts a trace of the kernel's instructions at its marks and adds them up by function; puts the results of several kernels into tables and a page.
# Usage: scripts/vm-kernels.pl cut KALLSYMS NAMES <LOG >TRACE.json     (scripts/vm-kernels starts both)
#        scripts/vm-kernels.pl page FOLDER KERNEL…
#   LOG is what QEMU writes with -singlestep -d exec,nochain; NAMES has a line for each pair of marks, in their order.
use strict;
use warnings;
use utf8;
use JSON::PP;

# Where modules lie, and what the kernel writes for itself.
use constant { OUTSIDE_FROM => "ffffffffa0000000", OUTSIDE => "code outside the image" };
use constant WAY_IN_AND_OUT => "the way into the kernel and out";
# A change that is explained, a fraction; how much of it the functions that are named make up.
use constant { EXPLAINED_FROM => 0.03, EXPLAINED => 0.9, FUNCTIONS_MAX => 100, FEW => 24 };

my ($verb, @arguments) = @ARGV;
if (($verb // "") eq "cut") { cut(@arguments) } elsif (($verb // "") eq "page") { page(@arguments) } else { die "see the first lines of $0\n" }

sub cut {
    my ($kallsyms, $names) = @_;
    my (%symbols, %address);
    open(my $symbols, "<", $kallsyms) or die "$kallsyms: $!";
    while (<$symbols>) {
        # Those of modules have a fourth column; padding before a function is no function.
        my ($at, $kind, $name) = /^(ffffffff\w{8}) ([tTwW]) (\S+)$/ or next;
        next if $at ge OUTSIDE_FROM;
        next if $name =~ /^__(?:pfx|cfi)_/;
        $address{$name} //= $at;
        # Of several at one place: bounds of sections last, a global one before a local one, the shorter one, the first one.
        my $rank = sprintf "%d%d %03d %s", ($name =~ /_(?:start|end|begin)$/ ? 1 : 0), ($kind =~ /[tw]/ ? 1 : 0), length $name, $name;
        $symbols{$at} = $rank if !defined $symbols{$at} || $rank lt $symbols{$at};
    }
    my @starts = sort keys %symbols;
    my %function_of;
    my $function_of = sub {
        my ($at) = @_;
        return OUTSIDE if $at ge OUTSIDE_FROM;
        return $function_of{$at} //= do {
            my ($low, $high) = (0, $#starts);
            while ($low < $high) {
                my $middle = int(($low + $high + 1) / 2);
                if ($starts[$middle] le $at) { $low = $middle } else { $high = $middle - 1 }
            }
            plain((split / /, $symbols{ $starts[$low] })[2]);
        };
    };

    my ($begin, $end, $nmi, $output) = map { $address{$_} // die "no $_ in $kallsyms\n" }
        "__x64_sys_sched_get_priority_max", "__x64_sys_sched_get_priority_min", "asm_exc_nmi", "perf_output_sample";
    my ($is_inside, %counts, @windows) = (0);
    while (<STDIN>) {
        if (!$is_inside) {
            next if index($_, $begin) < 0 || !/^Trace/;
            ($is_inside, %counts) = (1);
            next;
        }
        if (/^Trace \d+: \S+ \[\w+\/(\w+)\//) {
            if ($1 eq $end) {
                push @windows, {%counts};
                $is_inside = 0;
            } elsif ($1 eq $begin) {
                # A mark that was interrupted begins anew.
                %counts = ();
            } else {
                $counts{$1}++;
            }
        } elsif (/^Stopped.*\[(\w+)\]/) {
            # An interrupt came first: the instruction is executed, and said, behind it.
            $counts{$1}--;
        }
    }

    open(my $lines, "<", $names) or die "$names: $!";
    chomp(my @names = <$lines>);
    @names == @windows or die sprintf("%d pairs of marks, and %d in the trace\n", scalar @names, scalar @windows);
    my (%repetitions, @order);
    for my $nth (0 .. $#names) {
        my ($name, $window) = ($names[$nth], $windows[$nth]);
        push @order, $name if !$repetitions{$name};
        my ($total, %functions, %calls) = (0);
        while (my ($at, $count) = each %$window) {
            $total += $count;
            $functions{ $function_of->($at) } += $count;
            # Parts that the compiler cut off a function are entered from it.
            $calls{ $function_of->($at) } += $count if $symbols{$at} && $symbols{$at} !~ /\.(?:part|cold)\b/;
        }
        push @{ $repetitions{$name} },
            { total => $total, interrupts => $window->{$nmi} // 0, records => $window->{$output} // 0, functions => \%functions, calls => \%calls };
    }

    # The fewest instructions are the undisturbed ones; the marks' own are taken off.
    my %best = map { my ($best) = sort { $a->{total} <=> $b->{total} } @{ $repetitions{$_} }; $_ => $best } @order;
    my $marks = $best{marks};
    my @prices;
    for my $name (@order) {
        my ($best, %of) = $best{$name};
        my $total = $best->{total};
        for my $what ("functions", "calls") {
            my %left = %{ $best->{$what} };
            if ($name ne "marks") { $left{$_} -= $marks->{$what}{$_} for keys %{ $marks->{$what} } }
            delete @left{ grep { !$left{$_} } keys %left };
            $of{$what} = \%left;
        }
        my $off = $name eq "marks" ? 0 : $marks->{total};
        push @prices, {
            name => $name, instructions => $total - $off, interrupts => $best->{interrupts}, records => $best->{records}, %of,
            repetitions => scalar @{ $repetitions{$name} },
            agree => scalar(grep { $_->{total} == $total } @{ $repetitions{$name} }),
            totals => [map { $_->{total} - $off } @{ $repetitions{$name} }],
        };
    }
    print JSON::PP->new->canonical->pretty->encode({ prices => \@prices });
    return;
}

# What the compiler adds to a name differs from one build to the next.
sub plain {
    my ($name) = @_;
    $name =~ s/(?:\.(?:isra|constprop|part|cold|llvm)(?:\.\d+)?)+$//;
    return $name;
}

# Names of one thing that differ by kernel: clocks, allocators, maple trees and security modules as a whole, checks of lists, copies, thunks of a mitigation, and the way
# into the kernel and out, which is cut into functions differently by each.
sub alike {
    my ($name) = @_;
    return WAY_IN_AND_OUT
        if $name =~ /^(?:entry_SYSCALL|entry_SYSRET|(?:do_syscall_64|x64_sys_call|amd_clear_divider|prandom_u32_state)$|syscall_(?:enter|exit|return)|(?:arch_)?exit_to_user_mode|fpregs_assert_state)/;
    return "indirect thunks" if $name =~ /^__x86_indirect_/;
    return "return thunks" if $name =~ /return_thunk$/;
    return "the slab allocator" if $name =~ /^_*(?:kmem_cache_(?:alloc|free)|kmalloc|kfree(?:_|$)|memcg_slab|slab_|cache_from_obj|(?:get|refill|drain)_obj_)/;
    return "the page allocator" if $name =~ /^_*(?:alloc_(?:pages|frozen_pages|pages_mpol)|get_page_from_freelist|rmqueue|prep_new_page|post_alloc_hook|check_new_pages|clear_(?:page_rep|highpages))/;
    return "the clock" if $name =~ /^(?:(?:native_)?sched_clock|local_clock|using_native_sched_clock)/;
    return "security modules" if $name =~ /^(?:security_(?!task_prctl)|tomoyo_|apparmor_|bpf_lsm_|hook_file_|cap_)/;
    return "maple trees" if $name =~ /^_*(?:mas|mtree|mt|mab)_/;
    $name =~ s/_noprof$//;
    $name =~ s/^__call_rcu_common$/call_rcu/;
    $name =~ s/^(__list_(?:add|del_entry)_valid)_or_report$/$1/;
    $name =~ s/^(mem(?:cpy|set))_orig$/$1/;
    $name =~ s/^__fget_light$/fdget/;
    return $name;
}

sub whole {
    my ($number) = @_;
    my $text = sprintf "%.0f", $number;
    1 while $text =~ s/^(-?\d+)(\d{3})/$1,$2/;
    return $text;
}

# An estimate, with its interval where that has a width.
sub estimate {
    my ($of) = @_;
    return "–" if !$of;
    my $middle = whole($of->{estimate});
    return $middle if $of->{high} - $of->{low} < 0.5;
    return sprintf "%s [%s, %s]", $middle, whole($of->{low}), whole($of->{high});
}

sub change {
    my ($from, $to) = @_;
    return "" if !defined $from || !defined $to || !$from;
    return sprintf "%+.1f %%", 100 * ($to / $from - 1);
}

sub document {
    my ($file) = @_;
    open(my $from, "<", $file) or return undef;
    local $/;
    my $text = <$from>;
    return JSON::PP->new->utf8->decode($text);
}

# What the traces say, per operation: a name, instructions, functions, repetitions that agree. Some prices are differences of two.
sub traced {
    my ($trace) = @_;
    my %by = map { $_->{name} => $_ } @{ $trace->{prices} };
    my @rows;
    my $add = sub {
        my ($name, $of, $less, $divisor) = @_;
        my (%functions, %calls);
        for ([\%functions, "functions"], [\%calls, "calls"]) {
            my ($sum, $what) = @$_;
            # What another function jumps to is no call.
            my $is_call = sub { $what eq "functions" || $_[0] !~ /_orig$/ };
            $sum->{ alike($_) } += $of->{$what}{$_} / $divisor for grep { $is_call->($_) } keys %{ $of->{$what} };
            if ($less) { $sum->{ alike($_) } -= $less->{$what}{$_} / $divisor for grep { $is_call->($_) } keys %{ $less->{$what} } }
        }
        # Sums of quotients, in whichever order a hash has: the same again to the last digit that is compared.
        for my $sum (\%functions, \%calls) { $_ = 0 + sprintf "%.6f", $_ for values %$sum }
        push @rows, {
            name => $name, functions => \%functions, calls => \%calls, agree => $of->{agree}, repetitions => $of->{repetitions},
            instructions => ($of->{instructions} - ($less ? $less->{instructions} : 0)) / $divisor,
        };
    };
    for my $price (@{ $trace->{prices} }) {
        my $name = $price->{name};
        next if $name =~ /^(?:marks|no interrupts|stop, PEBS, 100 records)$/;
        if ($name eq "two switches, no event") {
            $add->("a switch and a byte through a pipe, no event", $price, undef, 2);
        } elsif ($name =~ /^two switches, (.*)/) {
            $add->("a switch, beyond no event: $1", $price, $by{$name =~ s/,.*/, no event/r}, 2);
        } elsif ($name =~ /^a thread, (\d.*)/) {
            $add->("a thread, beyond no event: $1", $price, $by{"a thread, no event"}, 1);
        } elsif ($name eq "interrupts") {
            $add->("an interrupt of a counter, with its sample", $price, $by{"no interrupts"}, $price->{interrupts});
        } elsif ($name eq "stop, PEBS, 200 records") {
            my $fewer = $by{"stop, PEBS, 100 records"};
            $add->("a PEBS record, copied", $price, $fewer, $price->{records} - $fewer->{records});
        } else {
            $add->($name, $price, undef, 1);
        }
    }
    return \@rows;
}

# The functions whose counts changed most, as many as make up most of the change; what is left over.
sub explained {
    my ($from, $to, $most) = @_;
    my %names = (%{ $from->{functions} }, %{ $to->{functions} });
    my $total = $to->{instructions} - $from->{instructions};
    my @changes = map { [$_, $from->{functions}{$_} // 0, $to->{functions}{$_} // 0] } keys %names;
    @changes = sort { abs($b->[2] - $b->[1]) <=> abs($a->[2] - $a->[1]) || $a->[0] cmp $b->[0] } @changes;
    my ($sum, @named) = (0);
    for my $change (@changes) {
        last if @named >= $most || @named >= 3 && abs($total - $sum) <= (1 - EXPLAINED) * abs($total);
        last if abs($change->[2] - $change->[1]) < 0.5;
        push @named, $change;
        $sum += $change->[2] - $change->[1];
    }
    return (\@named, $total - $sum, scalar(@changes) - @named);
}

sub page {
    my ($folder, @names) = @_;
    my @kernels;
    for my $name (@names) {
        my $at = "$folder/$name";
        my %kernel = (name => $name, map { $_ => document("$at/$_.json") } qw(trace selfcost interrupt pebs matrix));
        open(my $packages, "<", "$at/packages") or die "$at/packages: $!";
        chomp(my @packages = <$packages>);
        $kernel{packages} = \@packages;
        # The package's version: the release that a kernel calls itself may stay where that goes on.
        my ($version) = map { /_(\d+\.\d+(?:\.\d+)?)/ ? $1 : () } @packages;
        $kernel{number} = $version // ($kernel{selfcost} ? $kernel{selfcost}{kernel} : $name);
        $kernel{traced} = traced($kernel{trace}) if $kernel{trace};
        $kernel{costs} = { map { price_key($_) => $_->{cost} ? $_->{cost}{median} : undef } @{ $kernel{selfcost} ? $kernel{selfcost}{prices} : [] } };
        push @kernels, \%kernel;
    }
    binmode STDOUT, ":encoding(UTF-8)";
    print tables(\@kernels, 0);
    open(my $to, ">:encoding(UTF-8)", "$folder/kernels.html.new") or die "$folder/kernels.html.new: $!";
    print $to html(\@kernels, tables(\@kernels, 1));
    close($to) && rename("$folder/kernels.html.new", "$folder/kernels.html") or die "$folder/kernels.html: $!";
    return;
}

sub price_key { my ($price) = @_; return join "\t", @{$price}{qw(section operation method set events)} }

# Software first, groups before singles, start before read before stop, by number of events.
sub figure_order {
    my ($price) = @_;
    my %turn = (start => 0, read => 1, stop => 2, software => 0, hardware => 1);
    return sprintf "%d %d %d %02d", $turn{ $price->{set} }, ($price->{method} =~ /singles/ ? 1 : 0), $turn{ $price->{operation} }, $price->{events};
}

sub price_label {
    my ($price) = @_;
    my $events = $price->{set} ? "$price->{events} $price->{set}" : "";
    return join ", ", grep { length } @{$price}{qw(operation method)}, $events;
}

# Everything as Markdown; all of selfcost's list, or what a reader wants first.
sub tables {
    my ($kernels, $is_all) = @_;
    my ($oldest) = @$kernels;
    my @heads = map { $_->{number} } @$kernels;
    my $changes = join " | ", map { $_ == 0 ? $heads[$_] : ($heads[$_], "change") } 0 .. $#heads;
    my $rule = "---:|" x (2 * @heads - 1);
    my @out;
    for my $kernel (@$kernels) {
        push @out, map { my ($sum, $file) = split; "- $kernel->{number}: `$file`, SHA-256 `$sum`\n" } @{ $kernel->{packages} };
    }
    push @out, "\nValues are instructions of the emulated machine, user's and kernel's, 1 ns each; brackets hold intervals where these have a width.\nChanges are against $heads[0], in parentheses where intervals overlap.\n";

    my $prices = $oldest->{selfcost} ? $oldest->{selfcost}{prices} : [];
    my $is_figure = sub { $_[0]{operation} =~ /^(?:start|stop|read)$/ && $_[0]{method} =~ /^(?:ioctl|read\(\)), (?:group|singles)$/ };
    # Left out of what is read first: sums of the others, ways in turns, events that share counters, rings of other shapes.
    my $is_wanted = sub {
        my ($price) = @_;
        return 0 if !$price->{cost};
        return 1 if $is_all;
        return 0 if $price->{operation} eq "start, stop, read" || $price->{method} =~ /^in turns|, again$/ || ($price->{remark} // "") =~ /^multiplexed/;
        return $price->{section} ne "switch" || $price->{operation} eq "2 processes of 0 KiB";
    };
    my @sections = (
        ["Start, stop, read: 1 to 16 events", sub { $_[0]{section} eq "measuring" && $is_figure->($_[0]) }],
        ["Other ways to start, stop and read", sub { $_[0]{section} eq "measuring" && !$is_figure->($_[0]) }],
        ["The first time", sub { $_[0]{section} eq "first-touch" }],
        ["Other calls", sub { $_[0]{section} eq "call" }],
        ["A context switch", sub { $_[0]{section} eq "switch" }],
        ["A thread that comes and goes", sub { $_[0]{section} eq "task" }],
        ["Other programs", sub { $_[0]{section} eq "tool" }],
    );
    my $row = sub {
        my ($name, @values) = @_;
        my @cells = map { $_ == 0 ? estimate($values[0]) : (estimate($values[$_]), change_of($values[0], $values[$_])) } 0 .. $#values;
        push @out, "| " . join(" | ", $name, @cells) . " |\n";
    };
    for my $section (@sections) {
        my ($title, $is_of_it) = @$section;
        my @of_it = grep { $is_of_it->($_) && $is_wanted->($_) } @$prices;
        next if !@of_it;
        @of_it = sort { figure_order($a) cmp figure_order($b) } @of_it if $is_figure->($of_it[0]);
        push @out, "\n### $title\n\n| selfcost, instructions | $changes |\n|---|$rule\n";
        for my $price (@of_it) { $row->(price_label($price), map { $_->{costs}{ price_key($price) } } @$kernels) }
    }

    if ($oldest->{interrupt} || $oldest->{pebs}) {
        my @terms = (
            ["an interrupt of a counter with its sample (instructions:u)", "interrupt", "alpha_ns"],
            ["a PEBS sample (instructions:uppp), all of it", "pebs", "alpha_ns"],
            ["… the hardware's share (0 is injected)", "pebs", "assist"],
            ["… a record, copied", "pebs", "copy"],
            ["a context switch, an interrupt's event inherited", "interrupt", "switch-inherited"],
            ["… one for each task", "interrupt", "switch-separate"],
            ["a context switch, a PEBS event inherited", "pebs", "switch-inherited"],
            ["… one for each task", "pebs", "switch-separate"],
            ["a thread that comes and goes, its event inherited", "interrupt", "task"],
        );
        push @out, "\n### A sample\n\n| calibrate, ns | $changes |\n|---|$rule\n";
        for my $term (@terms) {
            my ($name, $which, $key) = @$term;
            $row->($name, map { my $of = $_->{$which}; $of && ($key eq "alpha_ns" ? $of->{$key} : $of->{terms}{$key}) } @$kernels);
        }
    }

    # Cells of the grid, whose unit is another one.
    if ($oldest->{matrix}) {
        my @grid = map { my %cells = map { cell($_) => $_ } @{ $_->{matrix} ? $_->{matrix}{cells} : [] }; \%cells } @$kernels;
        push @out, "\n### Overhead of a program that is watched\n\n| matrix | $changes |\n|---|$rule\n";
        for my $cell (map { cell($_) } @{ $oldest->{matrix}{cells} }) {
            my @overheads = map { $_->{$cell} && $_->{$cell}{overhead} } @grid;
            my @cells = map {
                my $of = $overheads[$_];
                my $text = $of ? sprintf("%.2f %% [%.2f, %.2f]", map { 100 * $_ } @{$of}{qw(estimate low high)}) : "–";
                # A share of an overhead that is none says nothing.
                my $is_any = $overheads[0] && $overheads[0]{low} > 0.001;
                $_ == 0 ? $text : ($text, $is_any ? change_of($overheads[0], $of) : "")
            } 0 .. $#overheads;
            push @out, "| " . join(" | ", $cell, @cells) . " |\n";
        }
    }
    push @out, explanations($kernels, \@heads, $changes, $rule, $is_all) if $oldest->{traced};
    return join "", @out;
}

# The traces: totals, held against selfcost's; functions that make the changes.
sub explanations {
    my ($kernels, $heads, $changes, $rule, $is_all) = @_;
    my ($oldest) = @$kernels;
    my @traces = map { my %by = map { $_->{name} => $_ } @{ $_->{traced} // [] }; \%by } @$kernels;
    my (@out, @why, %seen);
    push @out, "\n### The kernel's instructions, counted one by one\n";
    push @out, "\nOf nine repetitions the one with the fewest; in parentheses how many had just as many, where not all. The last column: what selfcost or calibrate say\nbeyond it, by kernel.\n";
    push @out, "\n| trace | $changes | the tools beyond |\n|---|$rule---:|\n";
    for my $first (@{ $oldest->{traced} }) {
        my $name = $first->{name};
        # Those between the least and the most, which differ by the same.
        next if !$is_all && $name =~ /^(?:start|read|stop), .* [238] \w+$/;
        my @found = map { $_->{$name} } @traces;
        my @cells = map {
            my $of = $found[$_];
            my $text = !$of ? "–" : whole($of->{instructions}) . ($of->{agree} == $of->{repetitions} ? "" : " ($of->{agree})");
            $_ == 0 ? $text : ($text, change($first->{instructions}, $of && $of->{instructions}))
        } 0 .. $#found;
        my @beyond = map {
            my $price = $found[$_] && same_by_tools($kernels->[$_], $name);
            defined $price ? signed($price - $found[$_]{instructions}) : ()
        } 0 .. $#found;
        push @out, "| " . join(" | ", $name, @cells, join(", ", @beyond)) . " |\n";
        for my $nth (1 .. $#found) {
            my $of = $found[$nth] or next;
            next if abs($of->{instructions} / $first->{instructions} - 1) <= EXPLAINED_FROM;
            my ($named, $rest, $others) = explained($first, $of, !$is_all && $name =~ /^(?:a thread|m(?:un)?map|read\(\))/ ? FEW : FUNCTIONS_MAX);
            # A single event is a group of one.
            my $text = join "; ", map { sprintf "%s %s → %s%s", ($_->[0] =~ / / ? $_->[0] : "`$_->[0]`"), whole($_->[1]), whole($_->[2]), calls($first, $of, $_->[0]) } @$named;
            next if $seen{"$nth $first->{instructions} $of->{instructions} $text"}++;
            push @why, sprintf "| %s | %s | %s → %s, %s | %s; %d others %s |\n", $name, $heads->[$nth], whole($first->{instructions}),
                whole($of->{instructions}), change($first->{instructions}, $of->{instructions}), $text, $others, signed($rest);
        }
    }
    push @out, "\n### Changes of more than 3 %, by function\n";
    push @out, "\nInstructions of each function under $heads->[0] → under the other kernel, those that changed most first, until nine tenths of the change are named (of\n"
        . "threads, mappings and page faults 24 at most); (2 → 3 calls) where it is called more or less often.\n";
    push @out, "\n| trace | kernel | change | functions |\n|---|---|---|---|\n", @why;
    return @out;
}

# How often a function was called, where that changed.
sub calls {
    my ($from, $to, $name) = @_;
    my ($before, $behind) = map { $_->{calls}{$name} // 0 } $from, $to;
    return "" if !$before || !$behind || abs($before - $behind) < 0.5 || $name =~ / /;
    return sprintf " (%.0f → %.0f calls)", $before, $behind;
}

# In parentheses where the intervals overlap.
sub change_of {
    my ($from, $to) = @_;
    return "" if !$from || !$to;
    my $change = change($from->{estimate}, $to->{estimate});
    my $is_apart = $from->{high} < $to->{low} || $to->{high} < $from->{low} || $from->{estimate} == $to->{estimate};
    return $is_apart || !$change ? $change : "($change)";
}
sub signed { my ($number) = @_; return ($number >= 0 ? "+" : "−") . whole(abs $number) }

sub cell {
    my ($cell) = @_;
    return "off against off" if $cell->{mode} eq "off";
    return sprintf "%s, %d event%s", $cell->{mode}, $cell->{events}, $cell->{events} == 1 ? "" : "s";
}

# The same price by selfcost or calibrate, where they have it.
sub same_by_tools {
    my ($kernel, $name) = @_;
    return $kernel->{interrupt} && $kernel->{interrupt}{alpha_ns}{estimate} if $name eq "an interrupt of a counter, with its sample";
    return $kernel->{pebs} && $kernel->{pebs}{terms}{copy}{estimate} if $name eq "a PEBS record, copied";
    my $selfcost = sub { my $cost = $kernel->{costs}{ join "\t", @_ }; return $cost && $cost->{estimate} };
    if (my ($section, $of) = $name =~ /^a (switch|thread), beyond no event: (.*)/) {
        my ($events, $set, $how) = $of =~ /^(\d+) (\w+), (.*)$/ or return undef;
        my $method = $how =~ /^sampling/ ? $how : "counting, $how";
        my @what = $section eq "switch" ? ("switch", "2 processes of 0 KiB") : ("task", "a thread, created and joined");
        my ($with, $without) = ($selfcost->(@what, $method, $set, $events), $selfcost->(@what, "no event", "", 0));
        return defined $with && defined $without ? $with - $without : undef;
    }
    return $selfcost->("task", "a thread, created and joined", "no event", "", 0) if $name eq "a thread, no event";
    return $selfcost->("call", "a call that does nothing", "getppid()", "", 0) if $name eq "a call that does nothing";
    if ($name =~ /^(start|stop|read), (group|singles), (\d+) (\w+)$/) {
        return $selfcost->("measuring", $1, ($1 eq "read" ? "read(), $2" : "ioctl, $2"), $4, $3);
    }
    return $selfcost->("measuring", $1, "prctl", $3, $2) if $name =~ /^(start|stop), prctl, (\d+) (\w+)$/;
    return $selfcost->("call", $1, ($2 eq "software" ? "page-faults:u" : "instructions:u"), $2, 1) if $name =~ /^(open|close), 1 (\w+)$/;
    return $selfcost->("call", $1, $2, "hardware", 1) if $name =~ /^(mmap|munmap), (.*)$/;
    return $selfcost->("call", $1, "", $2, 1) if $name =~ /^(ioctl \w+), 1 (\w+)$/;
    return $selfcost->("call", $1, "a breakpoint", "software", 1) if $name =~ /^(.*), a breakpoint$/;
    return $selfcost->("first-touch", "read", $1, $2, 1) if $name =~ /^(read\(\) into an untouched page), 1 (\w+)$/;
    return undef;
}

# The tables as a page that needs nothing else, with a figure of the three prices by number of events.
sub html {
    my ($kernels, $text) = @_;
    my ($body, $is_table) = ("", 0);
    $text =~ s/(?<=[^\n|])\n(?=[a-zA-Z])/ /g;
    for (split /\n/, $text) {
        s/&/&amp;/g; s/</&lt;/g; s/>/&gt;/g; s/`([^`]*)`/<code>$1<\/code>/g;
        if (/^\|(?:---:?\|)+$/) { next }
        if (s/^\| //) {
            s/ \|$//;
            my @cells = split / \| /, $_, -1;
            if (!$is_table) {
                my $kind = $cells[-1] eq "functions" ? "wide text" : "wide";
                $body .= "<div class='$kind'><table>\n<tr>" . join("", map { "<th>$_" } @cells) . "\n";
                $is_table = 1;
                next;
            }
            $body .= "<tr>" . join("", map { my $class = class($_); "<td$class>$_" } @cells) . "\n";
            next;
        }
        $body .= "</table></div>\n" if $is_table;
        $is_table = 0;
        if (s/^### //) { $body .= "<h2>$_</h2>\n" } elsif (s/^- //) { $body .= "<p class=package>$_\n" } elsif (length) { $body .= "<p>$_\n" }
    }
    $body .= "</table></div>\n" if $is_table;
    my $figure = figure($kernels);
    my $heads = join ", ", map { $_->{number} } @$kernels;
    return <<"END";
<!DOCTYPE html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>What perf_event costs by kernel: $heads</title>
<style>
:root { color-scheme: light dark; --more: #b3261e; --less: #1a7f37; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .3rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th + th { text-align: right; white-space: nowrap } .text th { text-align: left } td.more { color: var(--more) } td.less { color: var(--less) }
code { font-size: .88em } .package { margin: .1rem 0; font-size: .85rem; overflow-wrap: anywhere }
svg { width: 100%; height: auto } svg text { fill: currentColor; font: 12px system-ui, sans-serif } svg .axis { stroke: currentColor; stroke-opacity: .35 }
svg .k0 { stroke: #4269d0; fill: #4269d0 } svg .k1 { stroke: #e08600; fill: #e08600 } svg .k2 { stroke: #1f9e77; fill: #1f9e77 } svg .k3 { stroke: #b04bc2; fill: #b04bc2 }
svg polyline { fill: none !important; stroke-width: 2 } svg .strong { font-weight: 600 } svg circle { stroke: none !important }
</style>
<h1>What perf_event costs by kernel</h1>
<p>Linux $heads in the emulated machine (Skylake), where an instruction takes 1 ns. So this is software's share: what SYSCALL, WRMSR, cache misses
and stalls take a processor has no price here. Changes of more than 3 % are coloured.
$figure
$body</html>
END
}

# A change is a number with its sign; so is what is right-aligned.
sub class {
    my ($cell) = @_;
    return ' class=n' if $cell =~ /^\(/;
    return ' class="n' . ($1 <= -3.05 ? " less" : $1 >= 3.05 ? " more" : "") . '"' if $cell =~ /^([+-]\d+\.\d) %$/;
    return ' class=n' if $cell =~ /^(?:[-–−+\d][\d,.]*(?: %| \(\d+\)| \[.*\])*(?:, [−+][\d,]+)*)?$/;
    return "";
}

# Panels: start, read and stop; their price, and its change against the first kernel; software events and hardware events in a group.
sub figure {
    my ($kernels) = @_;
    my ($width, $height, $left, $gap) = (300, 130, 70, 50);
    my @rows = map { my $set = $_; map { [$set, $_] } "price", "change" } "software", "hardware";
    my @columns = (["start", "ioctl, group"], ["read", "read(), group"], ["stop", "ioctl, group"]);
    my $svg = "";
    my $nth = 0;
    for my $kernel (@$kernels) {
        my $x = $left + 150 * $nth;
        $svg .= "<circle class=k$nth cx=$x cy=14 r=5 /><text x=" . ($x + 10) . " y=18>$kernel->{number}</text>";
        $nth++;
    }
    my $y = 55;
    for my $row (@rows) {
        my ($set, $what) = @$row;
        for my $column (0 .. $#columns) {
            my ($operation, $method) = @{ $columns[$column] };
            my $x = $left + $column * ($width + $left);
            my @lines;
            for my $kernel (@$kernels) {
                my @points;
                for my $events (1 .. 16) {
                    my $key = join "\t", "measuring", $operation, $method, $set, $events;
                    my ($first, $cost) = map { $_->{costs}{$key} } $kernels->[0], $kernel;
                    push @points, [$events, $what eq "price" ? $cost->{estimate} : 100 * ($cost->{estimate} / $first->{estimate} - 1)] if $first && $cost;
                }
                push @lines, \@points;
            }
            my @all = map { @$_ } @lines;
            next if !@all;
            my ($most) = sort { $b <=> $a } map { $_->[0] } @all;
            my ($low, $high) = (sort { $a <=> $b } 0, map { $_->[1] } @all)[0, -1];
            ($low, $high) = ($low - 1, $high + 1) if $what eq "change";
            my $across = sub { $x + $width * ($_[0] - 1) / ($most - 1 || 1) };
            my $up = sub { $y + $height * (1 - ($_[0] - $low) / ($high - $low)) };
            my $title = $what eq "price" ? "$operation, $set events in a group: instructions" : "… change against $kernels->[0]{number}, %";
            $svg .= sprintf "<text class=strong x=%d y=%d>%s</text>", $x, $y - 10, $title;
            for my $tick (ticks($low, $high)) {
                my $at = $up->($tick);
                $svg .= sprintf "<line class=axis x1=%d x2=%d y1=%.1f y2=%.1f /><text x=%d y=%.1f text-anchor=end>%s</text>", $x, $x + $width, $at, $at, $x - 6, $at + 4,
                    $what eq "price" ? whole($tick) : 0 + sprintf "%.1f", $tick;
            }
            my %marks = map { $_->[0] => 1 } @all;
            $svg .= sprintf "<text x=%.1f y=%d text-anchor=middle>%d</text>", $across->($_), $y + $height + 16, $_ for sort { $a <=> $b } keys %marks;
            for my $nth (0 .. $#lines) {
                my $points = join " ", map { sprintf "%.1f,%.1f", $across->($_->[0]), $up->($_->[1]) } @{ $lines[$nth] };
                $svg .= qq(<polyline class=k$nth points="$points" />);
                $svg .= sprintf "<circle class=k$nth cx=%.1f cy=%.1f r=2.5 />", $across->($_->[0]), $up->($_->[1]) for @{ $lines[$nth] };
            }
        }
        $y += $height + $gap;
    }
    return sprintf qq(<svg viewBox="0 0 %d %d" role=img aria-label="Prices of start, read and stop by number of events">%s</svg>\n), 3 * ($width + $left) + 20, $y, $svg;
}

# Round numbers between two.
sub ticks {
    my ($low, $high) = @_;
    my $step = 10**int(log(($high - $low) / 2) / log(10) + ($high - $low > 2 ? 0 : -1));
    $step *= ($high - $low) / $step > 8 ? 5 : ($high - $low) / $step > 4 ? 2 : 1;
    my @ticks;
    for (my $tick = $step * int($low / $step); $tick <= $high; $tick += $step) { push @ticks, $tick if $tick >= $low }
    return @ticks;
}
