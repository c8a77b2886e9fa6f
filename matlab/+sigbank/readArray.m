function data = readArray(path, name)
  % readArray  The array in a file, by its ending: npy, wav, flac, ogg or mat (there the variable of this name, or the only one).
  [~, ~, ending] = fileparts(path);
  switch lower(ending)
    case '.npy'
      data = sigbank.readNPY(path);
    case {'.wav', '.flac', '.ogg'}
      try
        data = audioread(path);
      catch e
        error('sigbank:corrupt', '%s: this audio file cannot be read: %s', path, e.message);
      end
    case '.mat'
      try
        variables = load(path);
      catch e
        error('sigbank:corrupt', '%s: this mat file cannot be read: %s', path, e.message);
      end
      names = fieldnames(variables);
      if any(strcmp(names, name))
        data = variables.(name);
      elseif numel(names) == 1
        data = variables.(names{1});
      else
        error('sigbank:invalid', '%s: there are several variables (%s), and none of the name ''%s''', path, strjoin(names', ', '), name);
      end
    otherwise
      error('sigbank:unsupported', '%s: files of the kind ''%s'' are no arrays', path, ending);
  end
end
