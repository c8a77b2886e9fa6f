//! `sigbank import`.

use crate::check::style;
use crate::{Failure, text};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use sigbank::Error;
use sigbank::convert::Skipped;
use sigbank::convert::import::{
    Csv, ImportOptions, ImportPlan, ImportReport, Pattern, PlannedArray, PlannedItem, Table, Template, check_dest, plan,
    run as import,
};
use std::io::Write;
use std::path::PathBuf;

/// Files that a list names, where there is no --json.
const NAMED: usize = 20;

/// Make a JBOF data set of a folder of loose files (wav, flac, ogg, npy, mat), which are copied unchanged
///
/// Each file becomes an array of an item. What its path says, a table and the headers of audio (samplerate, channels, bits, duration in
/// seconds) become metadata. What is left out is counted and listed, hidden files (whose name, or a folder's,
/// begins with a dot) among it. Two files that would be one array end the run. Run it again after an
/// interruption: what is copied is not copied again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of files
    folder: PathBuf,
    /// The folder to make
    dest: PathBuf,
    /// What the path says, such as '{speaker}/{session}_{take:int}.wav': a key stands for one or more characters other than /, as few as possible;
    /// :int and :float for a number, :path for several folders, {} for what is not wanted. {item} and {array} are no metadata, but the names of both.
    /// May be given several times: the first that fits counts, and files that fit none are left out
    #[arg(long, value_name = "PATTERN")]
    pattern: Vec<Pattern>,
    /// The item's name, such as '{speaker}-{take}', of metadata, {stem}, {ext}, {folder} and {parent}; files of one name are arrays of one item
    /// [default: the path without its ending, - for /; where the pattern has {array}, its other keys, joined by -]
    #[arg(long, value_name = "TEMPLATE", hide_default_value = true)]
    item: Option<Template>,
    /// The array's name, such as '{stem}' [default: signal]
    #[arg(long, value_name = "TEMPLATE", hide_default_value = true)]
    array: Option<Template>,
    /// More metadata: a csv, tsv, json or jsonl file with a row for each file, by its path (column path, file or filename)
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,
    /// Join rows and files by this key of the pattern instead, such as speaker
    #[arg(long, value_name = "KEY", requires = "metadata")]
    join: Option<String>,
    /// What is between the fields of a csv file: one character, or tab [default: , ; or a tab, whichever makes a column of paths]
    #[arg(long, value_name = "CHARACTER", requires = "metadata", value_parser = delimiter, hide_default_value = true)]
    delimiter: Option<u8>,
    /// Words of a csv file that stand for no value, such as NA,n/a
    #[arg(long, value_name = "WORDS", requires = "metadata", value_delimiter = ',')]
    na: Vec<String>,
    /// Count and list files that cannot be read, or decoded to their end, instead of ending; takes the time to decode them
    #[arg(long)]
    skip_bad: bool,
    /// Flush each item to the disk before the next, not all at the end
    #[arg(long)]
    durable: bool,
    /// Say what would be made of which file, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ => Err("one character is expected, such as ';', or tab".into()),
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if let Some(key) =
        args.join.as_ref().filter(|key| !args.pattern.iter().any(|pattern| pattern.keys().any(|known| known == **key)))
    {
        return Err(Error::invalid(format!("--join: no pattern has the key '{key}'")).remedy("give it with --pattern").into());
    }
    let how = Csv { delimiter: args.delimiter, na: args.na.clone() };
    let table = args.metadata.as_ref().map(|path| Table::read_with(path, args.join.as_deref(), &how)).transpose()?;
    let options = ImportOptions {
        patterns: args.pattern.clone(),
        item: args.item.clone(),
        array: args.array.clone(),
        table,
        skip_bad: args.skip_bad,
    };
    let plan = plan(&args.folder, &options)?;
    for warning in &plan.warnings {
        let of = args.metadata.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()));
        crate::eprintln_quietly(&text::shown(&format!("warning: {of}{warning}")));
    }
    if args.dry_run {
        check_dest(&plan, &args.dest)?;
        return print_plan(&plan, args.json, out);
    }
    let bar = ProgressBar::new(plan.bytes()).with_style(style("{bar:40} {bytes} of {total_bytes}, {eta} left"));
    let report = import(&plan, &args.dest, args.durable, &mut |done, _| bar.set_position(done));
    bar.finish_and_clear();
    let report = report?;
    let dest = args.dest.display().to_string();
    if args.json {
        let mut told = left_out(&plan);
        let ImportReport { items, arrays, bytes, resumed } = report;
        let own = json!({"dataset": dest, "items": items, "arrays": arrays, "bytes": bytes, "resumed": resumed});
        told.extend(own.as_object().cloned().unwrap_or_default());
        writeln!(out, "{}", Value::Object(told))?;
        return Ok(());
    }
    text::line(out, format_args!("imported {} into {dest}: {}", text::bytes(report.bytes), sums(&plan)))?;
    if report.resumed > 0 {
        writeln!(out, "of these, {} were copied before", text::some(report.resumed, "array"))?;
    }
    print_left_out(&plan, NAMED, out)
}

fn sums(plan: &ImportPlan) -> String {
    format!("{}, {}", text::some(plan.items.len() as u64, "item"), text::some(plan.arrays(), "array"))
}

fn left_out(plan: &ImportPlan) -> Map<String, Value> {
    let list = |skipped: &[Skipped]| skipped.iter().map(|s| json!({"source": s.source, "reason": s.reason})).collect::<Value>();
    let mut told = Map::new();
    told.insert("left_out".into(), list(&plan.left_out));
    told.insert("litter".into(), plan.litter.into());
    told.insert("unused_rows".into(), plan.unused_rows.clone().into());
    told.insert("without_row".into(), plan.without_row.clone().into());
    told.insert("warnings".into(), plan.warnings.clone().into());
    told
}

fn print_plan(plan: &ImportPlan, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if as_json {
        let array = |array: &PlannedArray| json!({"name": array.name, "source": array.source, "bytes": array.bytes, "metadata": array.metadata});
        let item = |item: &PlannedItem| json!({"name": item.name, "metadata": item.metadata, "arrays": item.arrays.iter().map(array).collect::<Value>()});
        let mut told = left_out(plan);
        told.insert("dry_run".into(), true.into());
        told.insert("bytes".into(), plan.bytes().into());
        told.insert("items".into(), plan.items.iter().map(item).collect());
        writeln!(out, "{}", Value::Object(told))?;
        return Ok(());
    }
    for item in &plan.items {
        text::line(out, format_args!("item {}  {}", item.name, Value::Object(item.metadata.clone())))?;
        for array in &item.arrays {
            text::line(out, format_args!("  {} from {} ({})", array.name, array.source, text::bytes(array.bytes)))?;
        }
    }
    writeln!(out, "to import: {} in {}", text::bytes(plan.bytes()), sums(plan))?;
    print_left_out(plan, usize::MAX, out)
}

fn print_left_out(plan: &ImportPlan, most: usize, out: &mut dyn Write) -> Result<(), Failure> {
    if !plan.left_out.is_empty() {
        writeln!(out, "left out: {}", text::some(plan.left_out.len() as u64, "file"))?;
        for Skipped { source, reason } in plan.left_out.iter().take(most) {
            text::line(out, format_args!("  {source}: {reason}"))?;
        }
        if plan.left_out.len() > most {
            writeln!(out, "  and {} more (--json lists all)", text::count((plan.left_out.len() - most) as u64))?;
        }
    }
    for (what, list) in [("files without a row", &plan.without_row), ("rows that fit no file", &plan.unused_rows)] {
        if !list.is_empty() {
            let (n, names) = (text::count(list.len() as u64), text::names(list.iter().map(String::as_str), most));
            text::line(out, format_args!("{n} {what}: {names}"))?;
        }
    }
    if plan.litter > 0 {
        writeln!(out, "skipped: {} left by operating systems and editors", text::some(plan.litter, "file"))?;
    }
    Ok(())
}
